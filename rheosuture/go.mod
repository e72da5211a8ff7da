module github.com/rheo-go/rheo/rheosuture

go 1.25.0

require (
	github.com/rheo-go/rheo v0.0.0
	github.com/thejerf/suture/v4 v4.0.6
	go.uber.org/goleak v1.3.0
)

replace github.com/rheo-go/rheo => ../

module github.com/rheo-go/rheo/embedded

go 1.25.0

require (
	github.com/rheo-go/rheo v0.0.0
	go.etcd.io/bbolt v1.5.0
	golang.org/x/sys v0.45.0
)

require go.uber.org/goleak v1.3.0

require github.com/google/go-cmp v0.7.0

replace github.com/rheo-go/rheo => ../

module github.com/rheo-go/rheo/cmd/rheo

go 1.25.0

require (
	github.com/rheo-go/rheo v0.0.0
	github.com/rheo-go/rheo/embedded v0.0.0
	github.com/spf13/cobra v1.10.2
	go.uber.org/goleak v1.3.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
)

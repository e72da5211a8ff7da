// Package prometheustest holds what the guide, its alert rules and the dashboard
// name to what OpenTelemetry's Prometheus exporter serves of rheootel. It is a module
// of its own, so that rheootel does not come to require the exporter.
package prometheustest

// Package keda holds tests with KEDA itself: its operator and its metrics adapter are processes next to a real control plane, whose
// horizontal pod autoscaler asks the adapter through the API server. The module in the folder program pins KEDA and nothing else.
package keda

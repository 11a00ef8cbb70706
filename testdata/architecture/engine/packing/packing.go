// Package packing may not know Kubernetes.
package packing

import (
	_ "k8s.io/api/core/v1"
	_ "tenon.sh/engine/capacity"
	_ "tenon.sh/engine/disruption"
)

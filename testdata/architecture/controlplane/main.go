// Command controlplane may import what it likes, but nothing of ours.
package main

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "tenon.sh/engine"
)

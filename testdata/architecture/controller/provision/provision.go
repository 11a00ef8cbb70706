// Package provision reaches into another controller, a cloud and the command line.
package provision

import (
	_ "k8s.io/client-go/kubernetes"
	_ "tenon.sh/cli"
	_ "tenon.sh/controller/disrupt"
	_ "tenon.sh/provider"
	_ "tenon.sh/provider/kwok"
	_ "tenon.sh/provider/providertest"
	_ "testing"
)

type ClaimManager struct{}

type Provisioner struct{}

func init() {}

// Package accounttest holds the tests of what an account of AWS needs: the controller's policies, against the calls that it
// makes; the CloudFormation template and the Terraform module, against each other and against moto, an independent
// implementation of AWS.
package accounttest

import (
	"os"
	"testing"

	"tenon.sh/provider/aws/awstest"
)

func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }

// Package accounttest holds the tests of the resources that an AWS account needs. The controller's policies are compared with its calls. The
// CloudFormation template and the Terraform module are compared with each other and with moto, an independent implementation of AWS.
package accounttest

import (
	"os"
	"testing"

	"tenon.sh/provider/aws/awstest"
)

func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }

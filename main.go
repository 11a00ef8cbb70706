// Command tenon is a Kubernetes node autoscaler; package cli holds its subcommands.
package main

import (
	"os"
	_ "time/tzdata" // images without a system have no time zones of their own

	_ "golang.org/x/crypto/x509roots/fallback" // nor roots to trust; where there are any, those hold

	"tenon.sh/cli"
)

func main() { os.Exit(cli.Main()) }

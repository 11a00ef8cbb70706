// Command tenon is a Kubernetes node autoscaler; package cli holds its subcommands.
package main

import (
	"os"
	_ "time/tzdata" // images without a system have no time zones of their own

	"tenon.sh/cli"
)

func main() { os.Exit(cli.Main()) }

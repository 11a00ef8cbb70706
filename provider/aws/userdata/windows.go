package userdata

import "strings"

// renderWindows puts the user's text before the call of the image's script.
func renderWindows(in Input, k Kubelet) string {
	call := "& $EKSBootstrapScriptFile -EKSClusterName " + powershellQuoted(in.ClusterName) + " -APIServerEndpoint " + powershellQuoted(in.Endpoint)
	if in.CABundle != "" {
		call += " -Base64ClusterCA " + powershellQuoted(in.CABundle)
	}
	if args := arguments(in, k); args != "" {
		call += " -KubeletExtraArgs " + powershellQuoted(args)
	}
	if dns := k.firstDNS(); dns != "" {
		call += " -DNSClusterIP " + powershellQuoted(dns)
	}
	lines := []string{"<powershell>"}
	if in.Text != "" {
		lines = append(lines, in.Text)
	}
	lines = append(lines,
		`[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"`,
		call,
		"</powershell>")
	return strings.Join(lines, "\n")
}

// powershellQuoted quotes any text as one word of a PowerShell command.
func powershellQuoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

package userdata

import (
	"net/netip"
	"strings"
)

// renderAL2 writes an archive. The user's parts come first, so that they run before the node joins.
func renderAL2(in Input, k Kubelet) (string, error) {
	var parts []part
	switch {
	case isArchive(in.Text):
		own, err := readArchive(in.Text)
		if err != nil {
			return "", err
		}
		parts = own
	case strings.TrimSpace(in.Text) != "":
		parts = []part{newPart(shellScript, in.Text)}
	}
	return writeArchive(append(parts, newPart(shellScript, bootstrapScript(in, k)))), nil
}

// bootstrapScript returns a script that calls the image's own script.
func bootstrapScript(in Input, k Kubelet) string {
	call := "/etc/eks/bootstrap.sh " + shellQuoted(in.ClusterName) + " --apiserver-endpoint " + shellQuoted(in.Endpoint)
	if in.CABundle != "" {
		call += " --b64-cluster-ca " + shellQuoted(in.CABundle)
	}
	lines := []string{call}
	dns := k.firstDNS()
	if address, err := netip.ParseAddr(dns); err == nil && address.Is6() {
		lines = append(lines, "--ip-family ipv6")
	}
	if dns != "" {
		lines = append(lines, "--dns-cluster-ip "+shellQuoted(dns))
	}
	// The number of pods is known here; the image's own table would override it.
	lines = append(lines, "--use-max-pods false", "--kubelet-extra-args "+shellQuoted(arguments(in, k)))
	if in.RAID0 {
		lines = append(lines, "--local-disks raid0")
	}
	return `#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
` + strings.Join(lines, " \\\n")
}

// shellQuoted quotes any text as one word of a shell command.
func shellQuoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

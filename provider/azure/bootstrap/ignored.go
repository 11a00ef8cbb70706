package bootstrap

import "tenon.sh/api/azurev1beta1"

// Ignored are the fields of a class, by path, that ask for something that images of AKS cannot be told in this way: machines are the
// same without them. All others act.
//
// The DNS cache needs a configuration that AKS's own service writes. If it is not as the image expects it, no pod of the node finds
// any name: it is left out rather than guessed. Artifact streaming needs another snapshotter, which AKS's service sets up.
func Ignored(class *azurev1beta1.AKSNodeClass) (paths []string) {
	spec := &class.Spec
	if a := spec.ArtifactStreaming; a != nil && a.Enabled != nil && *a.Enabled {
		paths = append(paths, "spec.artifactStreaming")
	}
	if spec.LocalDNS != nil && spec.LocalDNS.Mode != "Disabled" {
		paths = append(paths, "spec.localDNS")
	}
	return paths
}

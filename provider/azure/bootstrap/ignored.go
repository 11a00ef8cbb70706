package bootstrap

import "tenon.sh/api/azurev1beta1"

// Ignored returns the fields of a class, by path, that cannot be passed to images of AKS in this way. Machines are the same without them. All
// other fields have an effect.
//
// The DNS cache needs a configuration that AKS's own service writes. With a wrong configuration, no pod of the node could resolve names, so
// it is left out. Artifact streaming needs another snapshotter, which AKS's service sets up.
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

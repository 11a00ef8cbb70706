package cli

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// All objects in AWS with the tag of the cluster's name are removed. A name that happens to be in the environment is not reliable enough.
func TestUninstallDoesNotGoByAClusterNameThatMayBeAnothers(t *testing.T) {
	t.Parallel()
	deployed := &appsv1.Deployment{}
	deployed.Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: "ours"}}}}
	for name, c := range map[string]struct {
		in            *installation
		given, flag   string
		cloud, refuse string
	}{
		"the Deployment's":                    {&installation{deployment: deployed}, "ours", "", cloudAWS, ""},
		"another one than the Deployment's":   {&installation{deployment: deployed}, "other", "", cloudAWS, "manages ours"},
		"no Deployment":                       {&installation{}, "other", "", cloudAWS, "say --cluster-name"},
		"said by flag":                        {&installation{}, "other", "other", cloudAWS, ""},
		"said by flag against the Deployment": {&installation{deployment: deployed}, "other", "other", cloudAWS, ""},
		"a cloud that knows no name of it":    {&installation{}, "", "", cloudKWOK, ""},
	} {
		o := &uninstallOptions{controller: DefaultControllerOptions()}
		o.controller.CloudProvider, o.controller.ClusterName = c.cloud, c.given
		command := newUninstall()
		if c.flag != "" {
			if err := command.Flags().Set("cluster-name", c.flag); err != nil {
				t.Fatal(err)
			}
		}
		err := o.checkCluster(command, c.in)
		if (err == nil) != (c.refuse == "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
			t.Errorf("%s: %v, want %q", name, err, c.refuse)
		}
	}
}

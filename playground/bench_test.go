package playground_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/playground/playgroundtest"
)

// BenchmarkDeployment measures the time from the creation of a Deployment until all its pods run on existing nodes.
func BenchmarkDeployment(b *testing.B) {
	playgroundtest.Get(b)
	for _, size := range []struct{ nodes, pods int }{{20, 500}, {150, 1000}} {
		b.Run(fmt.Sprintf("%dpods/%dnodes", size.pods, size.nodes), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := newCluster(b)
				begin := time.Now()
				var names []string
				for i := range size.nodes {
					names = append(names, c.node(fmt.Sprintf("n%d", i), "64", "256Gi", "200").Name)
				}
				for _, name := range names {
					c.ready(name)
				}
				b.ReportMetric(time.Since(begin).Seconds(), "s/nodes-ready")
				for _, name := range names {
					c.register(name)
				}
				b.StartTimer()
				c.deploy(size.pods)
			}
		})
	}
}

func (c *cluster) deploy(pods int) {
	c.t.Helper()
	labels := map[string]string{"app": "web"}
	replicas := int32(pods)
	deployment, err := c.client.AppsV1().Deployments(c.namespace).Create(c.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: c.podSpec()},
		},
	}, metav1.CreateOptions{})
	c.must(err)
	eventually(c.t, 2*time.Minute, func() error {
		now, err := c.client.AppsV1().Deployments(c.namespace).Get(c.t.Context(), deployment.Name, metav1.GetOptions{})
		if err == nil && now.Status.ReadyReplicas != replicas {
			err = fmt.Errorf("%d of %d pods are ready", now.Status.ReadyReplicas, replicas)
		}
		return err
	})
}

package cli

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"tenon.sh/api/awsv1"
	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
)

// stocked is a cluster with some objects.
func stocked(objects ...client.Object) stock {
	return stock{fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithStatusSubresource(&v1.NodeClaim{}).WithObjects(objects...).Build()}
}

func poolOf(group, kind string) *v1.NodePool {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: group, Kind: kind, Name: "default"}
	return p
}

// An interrupted removal has left no pools and no claims. The remaining objects show the cloud.
func TestUninstallFindsTheCloudOfWhatIsLeft(t *testing.T) {
	t.Parallel()
	const aws, kwok = "karpenter.k8s.aws", "karpenter.kwok.sh"
	named := metav1.ObjectMeta{Name: "default"}
	labelled := func(key string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{key: "default"}}}
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"a pool":                    {[]client.Object{poolOf(kwok, "KWOKNodeClass"), &awsv1.EC2NodeClass{ObjectMeta: named}}, []string{kwok}},
		"a class of EC2":            {[]client.Object{&awsv1.EC2NodeClass{ObjectMeta: named}, labelled(kwok + "/kwoknodeclass")}, []string{aws}},
		"a class of KWOK":           {[]client.Object{&kwokv1alpha1.KWOKNodeClass{ObjectMeta: named}}, []string{kwok}},
		"a node of EC2":             {[]client.Object{labelled(aws + "/ec2nodeclass")}, []string{aws}},
		"a node of another's class": {[]client.Object{labelled("eks.amazonaws.com/nodeclass")}, nil},
		"nothing":                   {nil, nil},
	} {
		s := stocked(c.objects...)
		s.RESTMapper().(*meta.DefaultRESTMapper).Add(awsv1.GroupVersion.WithKind("EC2NodeClass"), meta.RESTScopeRoot)
		s.RESTMapper().(*meta.DefaultRESTMapper).Add(kwokv1alpha1.GroupVersion.WithKind("KWOKNodeClass"), meta.RESTScopeRoot)
		if got := s.groups(t.Context()); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// If only one kind of node class is installed, its cloud counts, even if nothing else is left.
func TestUninstallFindsTheCloudOfTheOnlyKindInstalled(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(awsv1.GroupVersion.WithKind("EC2NodeClass"), meta.RESTScopeRoot)
	s := stock{fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithRESTMapper(mapper).Build()}
	if got := s.groups(t.Context()); !slices.Equal(got, []string{"karpenter.k8s.aws"}) {
		t.Errorf("%q", got)
	}
}

package aws_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetes "k8s.io/apimachinery/pkg/version"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

// version is the version that an API server reports.
type version struct{ major, minor string }

func (v version) ServerVersion() (*kubernetes.Info, error) {
	if v.major == "" {
		return nil, errors.New("connection refused")
	}
	return &kubernetes.Info{Major: v.major, Minor: v.minor}, nil
}

// kubeDNS returns the Service with an address.
func kubeDNS(address string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: address}}
}

// told returns the settings of a machine of the class: its launch template, and its user data as text.
func (w *world) told(c *awsv1.EC2NodeClass) (awstest.Call, string) {
	w.Helper()
	w.launch(w.claim("a", c, in(corev1.LabelInstanceTypeStable, "m5.large")), c)
	calls := w.account.Calls("ec2:CreateLaunchTemplate")
	last := calls[len(calls)-1]
	text, err := base64.StdEncoding.DecodeString(last.Form.Get("LaunchTemplateData.UserData"))
	w.must(err)
	return last, string(text)
}

func TestMachinesAreToldTheAddressOfTheDNS(t *testing.T) {
	t.Parallel()
	const dns4, dns6 = "172.20.0.10", "fd30:1234::a"
	for address, want := range map[string]struct {
		text string // the setting in AL2's user data, which has one for each family
		six  string
	}{
		dns4: {"--dns-cluster-ip '" + dns4 + "'", ""},
		dns6: {"--ip-family ipv6 \\\n--dns-cluster-ip '" + dns6 + "'", "1"},
		"":   {"", ""},
	} {
		t.Run(fmt.Sprintf("address %q", address), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, untriedOn("1", "32"))
			if address != "" {
				w.must(w.client.Create(t.Context(), kubeDNS(address)))
			}
			c := w.resolved("general", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "al2@latest" })
			call, text := w.told(c)
			if !strings.Contains(text, want.text) || want.text == "" && strings.Contains(text, "dns") || want.six == "" && strings.Contains(text, "ipv6") {
				t.Errorf("user data without %q:\n%s", want.text, text)
			}
			if got := call.Form.Get("LaunchTemplateData.NetworkInterface.1.Ipv6AddressCount"); got != want.six {
				t.Errorf("machines get %q addresses of IPv6, want %q", got, want.six)
			}
		})
	}
}

func TestMachinesAreToldTheRangeOfTheServices(t *testing.T) {
	t.Parallel()
	for services, want := range map[string]string{"": "172.20.0.0/16", "fd30:1234::/108": "fd30:1234::/108"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, untried)
			w.account.SetIPv6(services)
			c := w.resolved("general", nil)
			if _, text := w.told(c); !strings.Contains(text, "cidr: "+want) {
				t.Errorf("user data without the range %s:\n%s", want, text)
			}
		})
	}
}

// untriedOn returns a change of the configuration. The provider then reads this version from the API server, and never asks EKS.
func untriedOn(major, minor string) func(*aws.Config) {
	return func(c *aws.Config) {
		untried(c)
		c.EKSControlPlane, c.Version = false, version{major, minor}
	}
}

// The version determines the images: AL2 has none from 1.33 on.
func TestTheVersionIsTheAPIServers(t *testing.T) {
	t.Parallel()
	for _, minor := range []string{"32", "32+"} {
		t.Run(minor, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, untriedOn("1", minor)) // EKS would return 1.34
			c := w.resolved("general", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "al2@latest" })
			if len(c.Status.AMIs) == 0 || !strings.Contains(c.Status.AMIs[0].Name, "1.32") {
				t.Errorf("images %+v", c.Status.AMIs)
			}
		})
	}
}

func TestAnAPIServerThatDoesNotSayItsVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untriedOn("", ""))
	c := w.class("general", nil)
	w.resolve(c)
	w.want(c, awsv1.ConditionAMIsReady, "Unknown", awsv1.ReasonResolutionFailed, "ask the API server for its version", "connection refused")
	if err := w.provider.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "ask the API server for its version") {
		t.Errorf("the program starts: %v", err)
	}
}

// An upgraded cluster has other images some minutes later.
func TestAnUpgradeIsNoticed(t *testing.T) {
	t.Parallel()
	server := &version{"1", "34"}
	w := newWorld(t, func(c *aws.Config) {
		untried(c)
		c.EKSControlPlane, c.Version = false, server
	})
	c := w.class("general", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "al2@latest" })
	w.resolve(c)
	w.want(c, awsv1.ConditionAMIsReady, "False", awsv1.ReasonUnsupportedAlias, "1.34")
	server.minor = "32"
	w.clock.Step(5 * time.Minute)
	if problem := w.resolve(c); problem != "" || len(c.Status.AMIs) == 0 {
		t.Errorf("%q, images %+v", problem, c.Status.AMIs)
	}
}

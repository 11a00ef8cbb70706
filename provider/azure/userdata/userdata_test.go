package userdata_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"tenon.sh/provider/azure/userdata"
)

func values() userdata.Values {
	return userdata.Values{
		ClusterName: "demo", ClusterEndpoint: "https://10.0.0.4:6443", ClusterCABundle: "Q0E=", CACertHash: "sha256:ab", NodeClaim: "general-1", NodePool: "general",
		NodeName: "demo-general-1", ProviderID: "azure:///subscriptions/s", KubernetesVersion: "1.34.2", JoinToken: "abcdef.0123456789abcdef", Region: "eastus",
		Zone: "eastus-1", InstanceType: "Standard_D2s_v5", CapacityType: "spot", MaxPods: 110,
		Labels: map[string]string{
			"karpenter.sh/nodepool": "general", "app": "web", "kubernetes.io/arch": "amd64", "kubernetes.io/role": "x", "node-restriction.kubernetes.io/a": "b",
			"topology.kubernetes.io/zone": "eastus-1", "node.kubernetes.io/instance-type": "Standard_D2s_v5", "kubelet.kubernetes.io/a": "b",
			"a.node.kubernetes.io/b": "c", "k8s.io/a": "b", "karpenter.k8s.aws/a": "b", "topology.disk.csi.azure.com/zone": "eastus-1", "empty": "",
			"x.k8s.io/a": "b", "notk8s.io/a": "b",
		},
		Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}, {Key: "booting", Effect: "NoExecute"}, {Key: "gpu", Value: "twice", Effect: "NoSchedule"}},
	}
}

// render returns the text for a machine.
func render(t *testing.T, text string, v userdata.Values) string {
	t.Helper()
	if err := userdata.Check(text); err != nil {
		t.Fatalf("checked: %v", err)
	}
	encoded, err := userdata.Render(text, v)
	if err != nil {
		t.Fatalf("filled in: %v", err)
	}
	out, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestEveryVariableAndFunctionIsFilledIn(t *testing.T) {
	t.Parallel()
	const labels = "a.node.kubernetes.io/b=c,app=web,empty=,karpenter.k8s.aws/a=b,karpenter.sh/nodepool=general,kubelet.kubernetes.io/a=b,kubernetes.io/arch=amd64," +
		"node.kubernetes.io/instance-type=Standard_D2s_v5,notk8s.io/a=b,topology.disk.csi.azure.com/zone=eastus-1,topology.kubernetes.io/zone=eastus-1"
	for text, want := range map[string]string{
		"{{ .ClusterName }} {{.ClusterEndpoint}} {{ .ClusterCABundle }}": "demo https://10.0.0.4:6443 Q0E=",
		"{{ .CACertHash }} {{ .NodeClaim }} {{ .NodePool }}":             "sha256:ab general-1 general",
		"{{ .NodeName }} {{ .ProviderID }} {{ .KubernetesVersion }}":     "demo-general-1 azure:///subscriptions/s 1.34.2",
		"{{ .JoinToken }} {{ .Region }} {{ .Zone }}":                     "abcdef.0123456789abcdef eastus eastus-1",
		"{{ .InstanceType }} {{ .CapacityType }} {{ .MaxPods }}":         "Standard_D2s_v5 spot 110",
		"--node-labels={{ labels }}":                                     "--node-labels=" + labels,
		"{{ taints }}":                                                   "booting:NoExecute,gpu=yes:NoSchedule,karpenter.sh/unregistered:NoExecute",
		"{{ json .Taints }}":                                             `[{"key":"booting","effect":"NoExecute"},{"key":"gpu","value":"yes","effect":"NoSchedule"},{"key":"karpenter.sh/unregistered","effect":"NoExecute"}]`,
		"{{ json .MaxPods }} {{ .ClusterName | json }} {{ json `<&>` }}": `110 "demo" "<&>"`,
		"{{ base64 .ClusterName }} {{ base64 (json .ClusterName) }}":     "ZGVtbw== ImRlbW8i",
		"{{ host .ClusterEndpoint }} {{ host \"https://api.example\" }}": "10.0.0.4:6443 api.example:443",
		"{{ `a\n\nb` | indent 2 }}":                                      "  a\n\n  b",
		"{{ `x` | base64 | indent 2 }}":                                  "  eA==",
		`{{ "{{" }} x }} {"a":{"b":{}}}`:                                 `{{ x }} {"a":{"b":{}}}`,
		"a\n{{- /* nothing */ -}}\nb":                                    "ab",
		"a\r\n\x00 {{ .Zone }}":                                          "a\r\n\x00 eastus-1",
	} {
		if got := render(t, text, values()); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestTextsWithoutBracesAreGivenAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"#!/bin/bash\necho ${HOME} }} %d\r\n", "#cloud-config\na: {b: {}}\n", "", strings.Repeat("x", userdata.Limit)} {
		if got := render(t, text, values()); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestWhatAMachineIsToldIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	const text = "{{ labels }} {{ taints }} {{ json .Labels }} {{ json .Taints }}"
	want := render(t, text, values())
	for range 20 {
		v := values()
		slices.Reverse(v.Taints[:2])
		if got := render(t, text, v); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestTheTaintOfUnregisteredNodesIsThereOnce(t *testing.T) {
	t.Parallel()
	v := values()
	behind := []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}, {Key: "of somebody else"}}
	v.Taints = behind[:1]
	for _, v := range []userdata.Values{v, {}} {
		if got := render(t, "{{ taints }}", v); got != "karpenter.sh/unregistered:NoExecute" {
			t.Errorf("got %s", got)
		}
	}
	if behind[1].Key != "of somebody else" {
		t.Error("the caller's list was changed")
	}
}

func TestWhatIsWrongWithATextIsSaidBeforeAnyMachineIsStarted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\n{{ .ClusterNam }}":                "spec.userData:2: .ClusterNam is not known: there are .ClusterName, .ClusterEndpoint,",
		"{{ .JoinToken.X }}":                  ".JoinToken.X is not known",
		"a {{ .Zone":                          "spec.userData:1: unclosed action",
		"a\nb {{ .Zone }":                     "spec.userData:2:",
		"{{ }}":                               "spec.userData:1: missing value",
		"{{ ds.meta_data.region }}":           `write {{ "{{" }} for braces that are meant for the machine`,
		"{{ region }}":                        "region is not known: the functions are labels, taints, json, host, base64 and indent",
		"{{ printf `%s` .Zone }}":             "printf is not known",
		"{{ if .Zone }}a{{ end }}":            "there are no conditions and no loops",
		"{{ range .Taints }}a{{ end }}":       "there are no conditions and no loops",
		"{{ with .Zone }}a{{ end }}":          "there are no conditions and no loops",
		"{{ template `x` }}":                  "there are no conditions and no loops",
		"{{ define `x` }}a{{ end }}":          "{{ define }} and {{ block }} are not known",
		"{{ end }}":                           "unexpected {{end}}",
		"{{ $x := .Zone }}":                   "variables of one's own are not known",
		"{{ . }}":                             "is not known: write a variable as {{ .ClusterName }}",
		"{{ nil }}":                           "nil is not known",
		"{{ true }}":                          "true is not known",
		"{{ (json .Labels).X }}":              "is not known",
		"{{ .Labels }}":                       ".Labels is no text: write {{ labels }} or {{ json .Labels }}",
		"{{ .Taints }}":                       ".Taints is no text: write {{ taints }} or {{ json .Taints }}",
		"{{ .Zone .Region }}":                 ".Zone is no function",
		"{{ .Zone | .Region }}":               ".Region is no function",
		"{{ labels .Labels }}":                "labels takes nothing",
		"{{ taints 1 }}":                      "taints takes nothing",
		"{{ json }}":                          "json takes one value",
		"{{ base64 .Labels }}":                "base64 takes one text",
		"{{ host .MaxPods }}":                 "host takes one text",
		"{{ indent .Zone }}":                  "indent takes a number and a text",
		"{{ indent 101 .Zone }}":              "indent takes a number of 0 to 100",
		"{{ indent -1 .Zone }}":               "indent takes a number of 0 to 100",
		"{{ 1.5 }}":                           "1.5 is not known",
		strings.Repeat("x", userdata.Limit+1): "65536 bytes when it is filled in, and Azure takes 65535 at most",
		"{{ `" + strings.Repeat("x", 60000) + "` | base64 }}": "80000 bytes",
	} {
		err := userdata.Check(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s\n got %v\nwant in one line %s", text, err, want)
		}
		if _, again := userdata.Render(text, values()); again == nil || again.Error() != err.Error() {
			t.Errorf("%.60s: Check says %v, Render %v", text, err, again)
		}
		if userdata.Needs(text) {
			t.Errorf("%.60s: needs a token", text)
		}
	}
}

func TestTextsThatAzureWouldRefuseAreRefused(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", userdata.Limit-3) + "{{ .ClusterName }}"
	if err := userdata.Check(text); err != nil {
		t.Errorf("before the name is known: %v", err)
	}
	_, err := userdata.Render(text, values())
	if large := (userdata.TooLargeError{}); !errors.As(err, &large) || large.Bytes != userdata.Limit+1 {
		t.Errorf("got %v", err)
	}
	// A text that grows without limit is given up early.
	for _, grows := range []string{
		"{{ `" + strings.Repeat("x", 1000) + "`" + strings.Repeat(" | base64", 500) + " }}",
		strings.Repeat("{{ `"+strings.Repeat("x\n", 100)+"` | indent 100 }}", 200),
	} {
		if large := (userdata.TooLargeError{}); !errors.As(userdata.Check(grows), &large) || large.Bytes > 10*userdata.Limit {
			t.Errorf("got %v", large)
		}
	}
}

func TestATokenIsAskedForWhereItHasAUse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{{ .JoinToken }}": true, "{{ .JoinToken | base64 | indent 2 }}": true, "{{ json .JoinToken }}": true,
		"{{ .NodeName }}": false, ".JoinToken": false, `{{ "{{" }} .JoinToken }}`: false, "{{ .JoinToken": false, "{{ .JoinToken }}{{ .X }}": false,
	} {
		if userdata.Needs(text) != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
}

// Users may copy the example in the package's comment.
func TestTheExampleIsAConfigurationOfKubeadm(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("userdata.go")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(source), "\npackage userdata")
	_, example, found := strings.Cut(regexp.MustCompile(`(?m)^//\t?`).ReplaceAllString(comment, ""), "apiVersion:")
	if !found {
		t.Fatal("there is none")
	}
	var got struct {
		Kind      string
		Discovery struct {
			BootstrapToken struct {
				Token, APIServerEndpoint string
				CACertHashes             []string
			}
		}
		NodeRegistration struct {
			Name             string
			Taints           []corev1.Taint
			KubeletExtraArgs []struct{ Name, Value string }
		}
	}
	if err := yaml.Unmarshal([]byte("apiVersion:"+render(t, example, values())), &got); err != nil {
		t.Fatal(err)
	}
	token, node := got.Discovery.BootstrapToken, got.NodeRegistration
	if got.Kind != "JoinConfiguration" || token.Token != "abcdef.0123456789abcdef" || token.APIServerEndpoint != "10.0.0.4:6443" || token.CACertHashes[0] != "sha256:ab" {
		t.Errorf("%+v", got)
	}
	if node.Name != "demo-general-1" || len(node.Taints) != 3 || len(node.KubeletExtraArgs) != 3 || !strings.HasPrefix(node.KubeletExtraArgs[1].Value, "a.node.kubernetes.io/b=c,") || node.KubeletExtraArgs[2].Value != "110" {
		t.Errorf("%+v", node)
	}
}

// authority makes a certificate, and returns the hash by which kubeadm identifies it.
func authority(t *testing.T) (inPEM []byte, hash string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(public)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), "sha256:" + hex.EncodeToString(sum[:])
}

func TestTheClusterIsKnownByItsAuthoritysKey(t *testing.T) {
	t.Parallel()
	first, want := authority(t)
	second, _ := authority(t)
	other := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})
	if got, err := userdata.CACertHash(slices.Concat([]byte("# a comment\n"), other, first, second)); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	for text, want := range map[string]string{
		"": "there is none in PEM", "Q0E=": "there is none in PEM", string(other): "there is none in PEM",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})): "read the certificate of the cluster's authority: x509",
	} {
		if _, err := userdata.CACertHash([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// No text causes a panic, and a text that passes the check can be filled in if there is room.
func FuzzCheckedTextsCanBeFilledIn(f *testing.F) {
	for _, text := range []string{"{{ .Zone }}", "{{ json .Labels | indent 3 }}", "{{ if }}", "{{ (labels) }}", `{{ "{{" }}`, "{{/*"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if userdata.Check(text) != nil {
			return
		}
		if _, err := userdata.Render(text, values()); err != nil && !errors.As(err, new(userdata.TooLargeError)) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

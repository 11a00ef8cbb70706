package userdata_test

import (
	"errors"
	"maps"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/provider/aws/userdata"
)

func TestWhatTheUserWroteWrongIsSaidInOneLine(t *testing.T) {
	t.Parallel()
	mixed := "Content-Type: multipart/mixed; boundary=B\n\n"
	for _, test := range []struct {
		name, text string
		family     userdata.Family
		kubelet    map[string]any
		want       string
	}{
		{"headers that are none", "MIME-Version: 1.0\nthis is no header\n\nx", userdata.AL2, nil, "its first lines are not headers"},
		{"no type", "MIME-Version: 1.0\n\nx", userdata.AL2023, nil, `no header "Content-Type"`},
		{"a type that cannot be read", "Content-Type: multipart/mixed; boundary\n\nx", userdata.AL2, nil, "cannot be read"},
		{"a single part", "Content-Type: text/plain\n\nx", userdata.AL2, nil, `is "text/plain" and must be multipart/mixed`},
		{"no boundary", "Content-Type: multipart/mixed\n\nx", userdata.AL2, nil, "names no boundary"},
		{"no part", mixed + "--B--\n", userdata.AL2, nil, "no part"},
		{"nothing after the headers", mixed, userdata.AL2, nil, "no part"},
		{"an open end", mixed + "--B\nContent-Type: text/x-shellscript\n\necho\n", userdata.AL2023, nil, "does not end in the line --B--"},
		{"base64 that is none", mixed + "--B\nContent-Type: text/x\nContent-Transfer-Encoding: base64\n\n???\n--B--\n", userdata.AL2023, nil, "not the base64"},
		{"an encoding that is none", mixed + "--B\nContent-Transfer-Encoding: rot13\n\nx\n--B--\n", userdata.AL2023, nil, `encoded as "rot13"`},
		{"a NodeConfig that is no YAML", "apiVersion: node.eks.aws/v1alpha1\nspec: [", userdata.AL2023, nil, "as a NodeConfig"},
		{"TOML that is none", "[settings\n", userdata.Bottlerocket, nil, "line 1, column"},
		{"TOML with a key twice", "a = 1\na = 2\n", userdata.Bottlerocket, nil, "TOML"},
		{"settings that are no table", "settings = 1\n", userdata.Bottlerocket, nil, "settings is a value, it must be a table"},
		{"kubernetes settings that are no table", "[settings]\nkubernetes = 1\n", userdata.Bottlerocket, nil, "settings.kubernetes is a value"},
		{"labels that are no table", "[settings.kubernetes]\nnode-labels = 1\n", userdata.Bottlerocket, nil, "settings.kubernetes.node-labels is a value"},
		{"commands that are no table", "[settings.bootstrap-commands]\na = 1\n", userdata.Bottlerocket, nil, "settings.bootstrap-commands.a is a value"},
		{"a kubelet field of another type", "", userdata.AL2, map[string]any{"evictionHard": map[string]any{"memory.available": 5}}, "spec.kubelet: evictionHard"},
		{"a kubelet field that is no duration", "", userdata.AL2, map[string]any{"evictionSoftGracePeriod": map[string]any{"memory.available": "soon"}}, "soon"},
		{"a family that is none", "", "Ubuntu", nil, "one of AL2, AL2023"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := node(test.family)
			in.Text, in.Kubelet = test.text, test.kubelet
			out, err := userdata.Render(in)
			if err == nil {
				t.Fatalf("no error but\n%s", out.Text)
			}
			if message := err.Error(); !strings.Contains(message, test.want) || strings.Contains(message, "\n") {
				t.Errorf("%q does not say in one line: %s", message, test.want)
			}
		})
	}
}

func TestTextsThatEC2WouldRefuseAreRefused(t *testing.T) {
	t.Parallel()
	in := node(userdata.Custom)
	in.Text = strings.Repeat("x", userdata.Limit)
	if _, err := userdata.Render(in); err != nil {
		t.Errorf("%d bytes: %v", userdata.Limit, err)
	}
	in.Family = userdata.AL2
	_, err := userdata.Render(in)
	var large userdata.TooLargeError
	if !errors.As(err, &large) || large.Own != userdata.Limit || large.Size <= userdata.Limit {
		t.Errorf("%d bytes and what AL2 needs beside them: %v", userdata.Limit, err)
	}
}

func TestAL2023DoesNotJoinWithoutTheServiceRange(t *testing.T) {
	t.Parallel()
	in := node(userdata.AL2023)
	in.ServiceCIDR = ""
	if _, err := userdata.Render(in); !errors.Is(err, userdata.ErrNoServiceCIDR) {
		t.Error(err)
	}
}

func TestLabelsThatKubeletsMayNotSetAreLeftOut(t *testing.T) {
	t.Parallel()
	claim := map[string]string{
		"team": "a", "example.com/a": "b", "karpenter.sh/nodepool": "p", "notkubernetes.io/a": "b",
		"kubernetes.io/arch": "x", "topology.kubernetes.io/zone": "x", "k8s.io/a": "x", "kops.k8s.io/a": "x",
		"node-restriction.kubernetes.io/a": "x", "a.node-restriction.kubernetes.io/b": "x",
	}
	want := map[string]string{
		"team": "a", "example.com/a": "b", "karpenter.sh/nodepool": "p", "notkubernetes.io/a": "b", "karpenter.sh/capacity-type": "spot",
	}
	if got := userdata.LabelsFor(userdata.Custom, claim, "spot"); !maps.Equal(got, want) {
		t.Errorf("Custom: %v", got)
	}
	want["karpenter.sh/do-not-sync-taints"] = "true"
	for _, family := range []userdata.Family{userdata.AL2, userdata.AL2023, userdata.Bottlerocket, userdata.Windows2022} {
		if got := userdata.LabelsFor(family, claim, "spot"); !maps.Equal(got, want) {
			t.Errorf("%s: %v", family, got)
		}
	}
}

func TestNodesRegisterWithAllTaintsAndTheUnregisteredOne(t *testing.T) {
	t.Parallel()
	a, b := corev1.Taint{Key: "a", Effect: "NoSchedule"}, corev1.Taint{Key: "b", Effect: "NoSchedule"}
	unregistered := corev1.Taint{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}
	if got := userdata.TaintsFor([]corev1.Taint{a}, []corev1.Taint{b}); !slices.Equal(got, []corev1.Taint{a, b, unregistered}) {
		t.Error(got)
	}
	if got := userdata.TaintsFor([]corev1.Taint{unregistered}, []corev1.Taint{b}); !slices.Equal(got, []corev1.Taint{unregistered, b}) {
		t.Error(got)
	}
}

func TestArchivesCanBeReadAgain(t *testing.T) {
	t.Parallel()
	in := node(userdata.AL2023)
	in.Text = archive
	out, err := userdata.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(out.Text, "\n\n")
	header := strings.TrimPrefix(strings.Split(out.Text, "\n")[1], "Content-Type: ")
	_, parameters, err := mime.ParseMediaType(header)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for reader := multipart.NewReader(strings.NewReader(body), parameters["boundary"]); ; {
		part, err := reader.NextPart()
		if err != nil {
			break
		}
		types = append(types, part.Header.Get("Content-Type"))
	}
	if want := []string{`text/x-shellscript; charset="us-ascii"`, "text/cloud-config", "application/node.eks.aws"}; !slices.Equal(types, want) {
		t.Errorf("%q", types)
	}
}

func TestBottlerocketKeepsWhatItKnowsAndSaysWhatItDrops(t *testing.T) {
	t.Parallel()
	in := node(userdata.Bottlerocket)
	in.Text = settings + "\n[metadata]\na = 1\n[settings.kubernetes.static-pods.x]\nenabled = true\nimage = \"y\"\n"
	out, err := userdata.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"metadata", "settings.kubernetes.container-log-max-filez", "settings.kubernetes.static-pods.x.image"}
	if !slices.Equal(out.Dropped, want) {
		t.Errorf("dropped %q", out.Dropped)
	}
	var again map[string]any
	if err := toml.Unmarshal([]byte(out.Text), &again); err != nil {
		t.Errorf("what was written is no TOML: %v", err)
	}
}

func TestVersionsOfBottlerocketInNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"bottlerocket-aws-k8s-1.34-x86_64-v1.49.0-3b9c1a2f": "v1.49.0",
		"bottlerocket-aws-k8s-1.34-nvidia-aarch64-v1.9.2":   "v1.9.2",
		"bottlerocket-*":         "",
		"amazon-eks-node-v2":     "",
		"":                       "",
		"bottlerocket-vNext-v1.": "v1.",
	} {
		if got := userdata.VersionInName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestVersionsOfBottlerocketThatBindByThemselves(t *testing.T) {
	t.Parallel()
	for version, itself := range map[string]bool{
		"1.45.0": false, "1.46.0": true, "1.47.3": true, "2.0.0": true, "v1.46.0": true, "1.9.0": false, "latest": true,
		"invalid": false, "1": false, "": false, "1.46": false, "a.b.c": false,
	} {
		in := node(userdata.Bottlerocket)
		in.RAID0, in.BottlerocketVersion = true, version
		out, err := userdata.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(out.Text, "--dirs"); told == itself {
			t.Errorf("%q: told which folders: %t", version, told)
		}
	}
}

func FuzzNothingThatUsersWritePanics(f *testing.F) {
	for _, text := range []string{"", script, archive, nodeConfig, settings} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, family := range []userdata.Family{userdata.AL2, userdata.AL2023, userdata.Bottlerocket, userdata.Windows2022, userdata.Custom} {
			in := node(family)
			in.Text = text
			if _, err := userdata.Render(in); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: more than one line: %q", family, err)
			}
		}
	})
}

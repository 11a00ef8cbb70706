package kubelet_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/provider/aws/kubelet"
)

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func TestWhatTheKubeletUnderstandsIsValid(t *testing.T) {
	t.Parallel()
	if got := kubelet.Invalid(nil); got != nil {
		t.Errorf("nothing: %v", got)
	}
	for _, text := range []string{
		`{}`,
		`{"clusterDNS":["10.0.0.10"],"maxPods":110,"podsPerCore":10,"cpuCFSQuota":false,"evictionMaxPodGracePeriod":60}`,
		`{"serializeImagePulls":false,"topologyManagerPolicy":"single-numa-node"}`,
		`{"logging":{"verbosity":4,"options":{"json":{"splitStream":true}}}}`,
		`{"evictionHard":{"memory.available":"500Mi","nodefs.available":"10%","nodefs.inodesFree":"5.5%"}}`,
		`{"evictionSoft":{"memory.available":"1Gi"},"evictionSoftGracePeriod":{"memory.available":"1m30s"}}`,
		`{"imageGCHighThresholdPercent":85,"imageGCLowThresholdPercent":80}`,
		`{"maxPods":0,"podsPerCore":0,"evictionMaxPodGracePeriod":0}`,
		`{"maxPods":"default_enis * 2"}`,
		`{"kubeReserved":{"cpu":"vcpus * 10"},"systemReserved":{"memory":"memory_mib / 20"},"maxPods":"5","registryPullQPS":5}`,
	} {
		if got := kubelet.Invalid(raw(text)); got != nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestWhatTheKubeletWouldRefuseIsNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"noSuchField":1}`:                   "noSuchField",
		`{"logging":{"noSuchField":1}}`:       "logging.noSuchField",
		`{"logging":{"options":{"x":{}}}}`:    "logging.options.x",
		`{"podsPerCore":"many"}`:              "podsPerCore",
		`{"logging":{"verbosity":"loud"}}`:    "verbosity",
		`["a"]`:                               "not an object",
		`{"maxPods":-1}`:                      "maxPods is -1",
		`{"podsPerCore":-1}`:                  "podsPerCore is -1",
		`{"evictionMaxPodGracePeriod":-1}`:    "evictionMaxPodGracePeriod is -1",
		`{"imageGCHighThresholdPercent":101}`: "imageGCHighThresholdPercent is 101",
		`{"imageGCLowThresholdPercent":-1}`:   "imageGCLowThresholdPercent is -1",
		`{"imageGCHighThresholdPercent":80,"imageGCLowThresholdPercent":80}`: "must be more than",
		`{"kubeReserved":{"gpu":"1"}}`:                                       `"gpu" cannot be reserved`,
		`{"systemReserved":{"cpu":"-1"}}`:                                    "systemReserved[cpu]",
		`{"evictionHard":{"memory.free":"1Gi"}}`:                             `evictionHard: there is no signal "memory.free"`,
		`{"evictionMinimumReclaim":{"memory.free":"1Gi"}}`:                   "evictionMinimumReclaim",
		`{"evictionHard":{"memory.available":"101%"}}`:                       "evictionHard[memory.available]",
		`{"evictionHard":{"memory.available":"NaN%"}}`:                       "evictionHard[memory.available]",
		`{"evictionHard":{"memory.available":"much"}}`:                       "evictionHard[memory.available]",
		`{"evictionMinimumReclaim":{"memory.available":"-1Gi"}}`:             "evictionMinimumReclaim[memory.available]",
		`{"evictionSoft":{"memory.available":"x"}}`:                          "evictionSoft[memory.available]",
		`{"evictionSoft":{"memory.available":"1Gi"}}`:                        "must have the same keys",
		`{"evictionSoftGracePeriod":{"memory.available":"1m"}}`:              "must have the same keys",
		`{"evictionSoftGracePeriod":{"memory.available":"minutes"}}`:         "evictionSoftGracePeriod[memory.available]",
		`{"evictionSoftGracePeriod":{"memory.available":"-1m"}}`:             "evictionSoftGracePeriod[memory.available]",
		`{"registerWithTaints":[]}`:                                          "registerWithTaints is set by the controller",
	} {
		if got := strings.Join(kubelet.Invalid(raw(text)), "; "); !strings.Contains(got, want) {
			t.Errorf("%s: %q does not say %q", text, got, want)
		}
	}
	if got := kubelet.Invalid(raw(`{"maxPods":-1,"podsPerCore":-1,"noSuchField":1,"other":2}`)); len(got) != 4 {
		t.Errorf("not all violations are told: %q", got)
	}
}

// Values that Read cannot read are invalid: otherwise a class could pass validation and have no catalog.
func TestWhatCannotBeReadIsInvalid(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[kubelet.Managed]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		for _, wrong := range []string{`{"a":{"b":1}}`, `[[1]]`, `1.5`, `true`, `"text"`} {
			text := `{"` + name + `":` + wrong + `}`
			if _, err := kubelet.Read(raw(text)); err != nil && kubelet.Invalid(raw(text)) == nil {
				t.Errorf("%s is valid and cannot be read: %v", text, err)
			}
		}
	}
}

func TestManagedFieldsAreRead(t *testing.T) {
	t.Parallel()
	text := `{"clusterDNS":["10.0.0.10"],"maxPods":7,"podsPerCore":2,"systemReserved":{"cpu":"1"},"kubeReserved":{"cpu":"2"},"evictionHard":{"memory.available":"1%"},` +
		`"evictionSoft":{"memory.available":"2%"},"evictionSoftGracePeriod":{"memory.available":"1m0s"},"evictionMaxPodGracePeriod":3,` +
		`"imageGCHighThresholdPercent":80,"imageGCLowThresholdPercent":70,"cpuCFSQuota":true}`
	m, err := kubelet.Read(raw(text))
	if err != nil {
		t.Fatal(err)
	}
	back, _ := json.Marshal(m)
	var want, got map[string]any
	_, _ = json.Unmarshal([]byte(text), &want), json.Unmarshal(back, &got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %s, want %s", back, text)
	}
	if n, set := m.MaxPodsNumber(); n != 7 || !set {
		t.Errorf("maxPods %d, %v", n, set)
	}
	if m, err := kubelet.Read(nil); err != nil || !reflect.DeepEqual(m, kubelet.Managed{}) {
		t.Errorf("nothing was read as %+v, %v", m, err)
	}
	if got := kubelet.Unmanaged(raw(`{"z":1,"a":2,"maxPods":3}`)); !slices.Equal(got, []string{"a", "z"}) {
		t.Errorf("unmanaged fields %v", got)
	}
}

func TestExpressionsAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{}`: nil,
		`{"maxPods":110,"kubeReserved":{"cpu":"100m"}}`: nil,
		`{"maxPods":"vcpus"}`:                           {"maxPods"},
		`{"kubeReserved":{"cpu":"vcpus","memory":"1Gi"},"systemReserved":{"pid":"max_pods * 2"}}`: {"kubeReserved[cpu]", "systemReserved[pid]"},
		`{"evictionHard":{"memory.available":"1 + 1"}}`:                                           nil,
	} {
		m, err := kubelet.Read(raw(text))
		if got := slices.Sorted(maps.Keys(kubelet.Expressions(&m))); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestWhatAFamilyCannotBeGivenIsNamed(t *testing.T) {
	t.Parallel()
	const all = `{"podsPerCore":2,"clusterDNS":["a","b"],"registryPullQPS":5}`
	for family, want := range map[string]int{"AL2023": 0, "Custom": 0, "AL2": 2, "Bottlerocket": 3, "Windows2022": 2} {
		m, err := kubelet.Read(raw(all))
		if got := kubelet.Unsupported(family, raw(all), &m); err != nil || len(got) != want {
			t.Errorf("%s: %q, %v; want %d", family, got, err, want)
		}
		m, _ = kubelet.Read(raw(`{"maxPods":5,"clusterDNS":["a"]}`))
		if got := kubelet.Unsupported(family, raw(`{"maxPods":5,"clusterDNS":["a"]}`), &m); len(got) != 0 {
			t.Errorf("%s: %q", family, got)
		}
	}
}

package trace_test

import (
	"strings"
	"testing"

	"tenon.sh/trace"
)

func answer(series ...string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",\n") + `]},"warnings":[]}`
}

const (
	infoWeb   = `{"metric":{"__name__":"kube_pod_info","namespace":"shop","pod":"web-1","uid":"u1","node":"n"},"values":[[1772409600,"1"],[1772409660,"1"],[1772409720,"1"]]}`
	infoJob   = `{"metric":{"__name__":"kube_pod_info","namespace":"shop","pod":"job-1","uid":"u2"},"values":[[1772409660,"1"],[1772409720,"1"]]}`
	infoShort = `{"metric":{"__name__":"kube_pod_info","namespace":"shop","pod":"web-2","uid":"u3"},"values":[[1772409660,"1"]]}`
	infoAgent = `{"metric":{"__name__":"kube_pod_info","namespace":"shop","pod":"agent-x","uid":"u4"},"values":[[1772409660,"1"]]}`
	cpuWeb    = `{"metric":{"__name__":"kube_pod_container_resource_requests","namespace":"shop","pod":"web-1","uid":"u1","container":"app","resource":"cpu","unit":"core","instance":"a"},"values":[[1772409600,"0.5"]]}`
	cpuWeb2   = `{"metric":{"__name__":"kube_pod_container_resource_requests","namespace":"shop","pod":"web-1","uid":"u1","container":"app","resource":"cpu","unit":"core","instance":"b"},"values":[[1772409600,"0.5"]]}`
	cpuProxy  = `{"metric":{"__name__":"kube_pod_container_resource_requests","namespace":"shop","pod":"web-1","uid":"u1","container":"proxy","resource":"cpu","unit":"core"},"values":[[1772409600,"0.1"]]}`
	memoryWeb = `{"metric":{"__name__":"kube_pod_container_resource_requests","namespace":"shop","pod":"web-1","uid":"u1","container":"app","resource":"memory","unit":"byte"},"values":[[1772409600,"1073741824"]]}`
	gpuJob    = `{"metric":{"__name__":"kube_pod_container_resource_requests","namespace":"shop","pod":"job-1","uid":"u2","container":"app","resource":"nvidia_com_gpu","unit":"integer"},"values":[[1772409660,"1"]]}`
	ownerWeb  = `{"metric":{"__name__":"kube_pod_owner","namespace":"shop","pod":"web-1","uid":"u1","owner_kind":"ReplicaSet","owner_name":"web","owner_is_controller":"true"},"values":[[1772409600,"1"]]}`
	ownerJob  = `{"metric":{"__name__":"kube_pod_owner","namespace":"shop","pod":"job-1","uid":"u2","owner_kind":"Job","owner_name":"job"},"values":[[1772409660,"1"]]}`
	ownerNone = `{"metric":{"__name__":"kube_pod_owner","namespace":"shop","pod":"web-2","uid":"u3","owner_kind":"<none>","owner_name":"<none>"},"values":[[1772409660,"1"]]}`
	ownerSet  = `{"metric":{"__name__":"kube_pod_owner","namespace":"shop","pod":"agent-x","uid":"u4","owner_kind":"DaemonSet","owner_name":"agent"},"values":[[1772409660,"1"]]}`
	doneJob   = `{"metric":{"__name__":"kube_pod_completion_time","namespace":"shop","pod":"job-1","uid":"u2"},"values":[[1772409720,"1772409700"]]}`
)

func TestPrometheusTellsWhenPodsCameAndWent(t *testing.T) {
	t.Parallel()
	p := trace.NewPrometheus()
	for name, text := range map[string]string{
		"info.json": answer(infoWeb, infoJob, infoShort, infoAgent), "requests.json": zip(t, answer(cpuWeb, cpuWeb2, cpuProxy, memoryWeb, gpuJob)),
		"owner.json": answer(ownerWeb, ownerJob, ownerNone, ownerSet), "done.json": answer(doneJob),
	} {
		if err := p.Add(strings.NewReader(text), name); err != nil {
			t.Fatal(err)
		}
	}
	x, err := p.Trace()
	if err != nil {
		t.Fatal(err)
	}
	want := `namespace,pod,owner,arrival,departure,cpu,memory,nvidia.com/gpu
shop,web-1,ReplicaSet/web,2026-03-02T00:00:00Z,,600m,1073741824,
shop,job-1,Job/job,2026-03-02T00:01:00Z,2026-03-02T00:01:40Z,,,1
shop,web-2,,2026-03-02T00:01:00Z,2026-03-02T00:02:00Z,,,
`
	if got := csvOf(t, x); got != want {
		t.Errorf("got\n%s", got)
	}
	if notes := strings.Join(x.Notes, "\n"); !strings.Contains(notes, "1 pod of DaemonSets") {
		t.Errorf("noted: %s", notes)
	}
}

func TestWhatPrometheusDoesNotAnswerIsSaid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "m.json: it is empty"},
		{"error", `{"status":"error","error":"timeout"}`, `m.json:1: Prometheus answered with status "error"`},
		{"instant", `{"status":"success","data":{"resultType":"vector","result":[]}}`, "the result is a vector: ask /api/v1/query_range"},
		{"another document", `{"kind":"List"}`, "it holds no data.result"},
		{"a list", `[]`, "[ stands where { is expected"},
		{"no name", answer(`{"metric":{"pod":"a"},"values":[[1,"1"]]}`), "a series has no __name__"},
		{"cut off", answer(infoWeb, infoJob)[:300], "it is cut off here: the rest of the JSON is missing"},
		{"odd sample", answer(`{"metric":{"__name__":"kube_pod_info","namespace":"a","pod":"a"},"values":[[1,1]]}`), "a sample of kube_pod_info is no pair"},
		{"backwards", answer(`{"metric":{"__name__":"kube_pod_info","namespace":"a","pod":"a"},"values":[[2,"1"],[1,"1"]]}`), "not in order of time"},
		{"no JSON", "go away", "m.json:1: invalid character 'g'"},
	} {
		if err := trace.NewPrometheus().Add(strings.NewReader(c.text), "m.json"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, which does not say %q", c.name, err, c.want)
		}
	}
	p := trace.NewPrometheus()
	if err := p.Add(strings.NewReader(answer(infoWeb)), "m.json"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Trace(); err == nil || !strings.Contains(err.Error(), "no file holds kube_pod_container_resource_requests") {
		t.Errorf("without requests: %v", err)
	}
}

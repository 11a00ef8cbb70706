package prometheus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tenon.sh/playground/playgroundtest"
)

// server is a running Prometheus.
type server struct {
	*playgroundtest.Program
	url    string
	pace   pace
	alerts []string // of the rules that it has loaded
	began  time.Time
}

// startPrometheus starts one that finds Tenon by the ServiceMonitor and has the rules that are shipped, at some pace.
func (w *world) startPrometheus(p pace, monitor *unstructured.Unstructured) *server {
	w.Helper()
	binary, err := playgroundtest.FindProgram("../..", "prometheus", "prometheus")
	w.must(err)
	dir := w.TempDir()
	config, alerts := w.configure(p, dir, monitor)
	address := "127.0.0.1:" + strconv.Itoa(playgroundtest.FreePort(w.TB))
	s := &server{url: "http://" + address, pace: p, alerts: alerts, began: time.Now(), Program: &playgroundtest.Program{
		Name: "prometheus", Path: binary, Log: w.logFile(fmt.Sprintf("prometheus-%d.log", p.times)), Health: "http://" + address + "/-/ready",
		Args: []string{
			"--config.file=" + config, "--web.listen-address=" + address, "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			// Times of its own that rules depend on, divided as those of the rules are.
			"--query.lookback-delta=5s", "--rules.alert.for-grace-period=10s", "--rules.alert.for-outage-tolerance=1m",
		},
	}}
	ctx, cancel := context.WithTimeout(w, time.Minute)
	defer cancel()
	w.must(s.Start(ctx))
	w.Cleanup(s.Kill)
	return s
}

// ask asks Prometheus's API and decodes what it answers into data.
func (s *server) ask(data any, path string, parameters url.Values) error {
	response, err := http.Get(s.url + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// alert is one that is pending or firing.
type alert struct {
	Labels, Annotations map[string]string
	State, Value        string
}

// firing finds an alert that fires with these labels, among others. Without one it says what there is.
func (s *server) firing(name string, labels map[string]string) (found *alert, state string) {
	var all struct{ Alerts []alert }
	if err := s.ask(&all, "alerts", nil); err != nil {
		return nil, err.Error()
	}
	for _, a := range all.Alerts {
		if a.Labels["alertname"] != name {
			continue
		}
		state += fmt.Sprintf(" %s %v", a.State, a.Labels)
		same := a.State == "firing"
		for key, value := range labels {
			same = same && a.Labels[key] == value
		}
		if same {
			return &a, state
		}
	}
	return nil, fmt.Sprintf("%s with %v does not fire; of it there is:%s", name, labels, state)
}

// series are the values of a query, at every second of a time, by their labels.
func (s *server) series(query string, begin, end time.Time) (map[string][]float64, error) {
	at := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	if err := s.ask(&data, "query_range", url.Values{"query": {query}, "start": {at(begin)}, "end": {at(end)}, "step": {"1"}}); err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	out := map[string][]float64{}
	for _, r := range data.Result {
		labels := fmt.Sprint(r.Metric)
		for _, v := range r.Values {
			value, err := strconv.ParseFloat(v[1].(string), 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", query, err)
			}
			out[labels] = append(out[labels], value)
		}
	}
	return out, nil
}

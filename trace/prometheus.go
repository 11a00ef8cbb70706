package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Metrics of kube-state-metrics in Prometheus.
const (
	metricInfo         = "kube_pod_info"
	metricRequests     = "kube_pod_container_resource_requests"
	metricInitRequests = "kube_pod_init_container_resource_requests"
	metricOwner        = "kube_pod_owner"
	metricCompletion   = "kube_pod_completion_time"
)

// A Prometheus makes a trace of answers of Prometheus's /api/v1/query_range about metrics of kube-state-metrics: kube_pod_info,
// kube_pod_container_resource_requests and kube_pod_owner, and optionally kube_pod_completion_time and
// kube_pod_init_container_resource_requests. They may be in any number of files, in any order.
type Prometheus struct {
	pods        map[string]*observed
	first, last float64 // first and last sample of all pods, in seconds since 1970
	step        float64 // least time between two samples
	seen        map[string]int
	left        map[string]bool // unknown resources
}

// observed is a pod in the data of kube-state-metrics.
type observed struct {
	namespace, name, owner string
	first, last, done      float64
	info                   bool
	requests, init         map[[2]string]float64 // by container and resource
}

// NewPrometheus returns a Prometheus without data.
func NewPrometheus() *Prometheus {
	return &Prometheus{pods: map[string]*observed{}, first: math.Inf(1), last: math.Inf(-1), step: math.Inf(1), seen: map[string]int{}, left: map[string]bool{}}
}

// Add reads one answer, series by series.
func (p *Prometheus) Add(in io.Reader, file string) error {
	reader := bufio.NewReaderSize(in, 1<<16)
	if magic, _ := reader.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(reader)
		if err != nil {
			return &Error{file, 0, fmt.Sprintf("it begins as gzip does and is none: %v", err)}
		}
		reader = bufio.NewReader(unpacked)
	}
	count := &lineCounter{in: reader, line: 1}
	decoder := json.NewDecoder(count)
	if err := p.answer(decoder); err != nil {
		text := err.Error()
		switch {
		case errors.Is(err, io.EOF) && decoder.InputOffset() == 0:
			return &Error{file, 0, "it is empty"}
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
			text = "it is cut off here: the rest of the JSON is missing"
		}
		return &Error{file, count.line, text}
	}
	return nil
}

// lineCounter counts the lines that have been read.
type lineCounter struct {
	in   io.Reader
	line int
}

func (c *lineCounter) Read(into []byte) (int, error) {
	n, err := c.in.Read(into)
	c.line += bytes.Count(into[:n], []byte("\n"))
	return n, err
}

// answer reads {"status":"success","data":{"resultType":"matrix","result":[...]}}.
func (p *Prometheus) answer(d *json.Decoder) error {
	results := 0
	err := object(d, func(key string) error {
		switch key {
		case "status":
			var status string
			if err := d.Decode(&status); err != nil {
				return err
			}
			if status != "success" {
				return fmt.Errorf("Prometheus answered with status %q: this is no data", status)
			}
			return nil
		case "data":
			return object(d, func(key string) error {
				switch key {
				case "resultType":
					var kind string
					if err := d.Decode(&kind); err != nil {
						return err
					}
					if kind != "matrix" {
						return fmt.Errorf("the result is a %s: ask /api/v1/query_range, whose result is a matrix", kind)
					}
					return nil
				case "result":
					results++
					return array(d, func() error { return p.series(d) })
				}
				return skip(d)
			})
		}
		return skip(d)
	})
	if err == nil && results == 0 {
		return errors.New("it holds no data.result: it is no answer of /api/v1/query_range")
	}
	return err
}

// object reads an object, member by member.
func object(d *json.Decoder, member func(key string) error) error {
	if err := begin(d, '{'); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if err := member(key.(string)); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func array(d *json.Decoder, element func() error) error {
	if err := begin(d, '['); err != nil {
		return err
	}
	for d.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func begin(d *json.Decoder, with json.Delim) error {
	token, err := d.Token()
	if err == nil && token != with {
		return fmt.Errorf("%v stands where %s is expected: it is no answer of /api/v1/query_range", token, with)
	}
	return err
}

func skip(d *json.Decoder) error {
	var ignored json.RawMessage
	return d.Decode(&ignored)
}

// series reads the samples of one series.
func (p *Prometheus) series(d *json.Decoder) error {
	var s struct {
		Metric map[string]string    `json:"metric"`
		Values [][2]json.RawMessage `json:"values"`
	}
	if err := d.Decode(&s); err != nil {
		return err
	}
	name := s.Metric["__name__"]
	if name == "" {
		return errors.New("a series has no __name__: ask for the metrics themselves, not for rates or sums of them")
	}
	if s.Metric["pod"] == "" || s.Metric["namespace"] == "" || len(s.Values) == 0 {
		return nil
	}
	times, value := make([]float64, len(s.Values)), 0.0
	for i, sample := range s.Values {
		var text string
		if json.Unmarshal(sample[0], &times[i]) != nil || json.Unmarshal(sample[1], &text) != nil {
			return fmt.Errorf("a sample of %s is no pair of a time and a value in quotes", name)
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is no value of %s", text, name)
		}
		if i > 0 && times[i] <= times[i-1] {
			return fmt.Errorf("the samples of %s of pod %s/%s are not in order of time", name, s.Metric["namespace"], s.Metric["pod"])
		}
		if i > 0 {
			p.step = min(p.step, times[i]-times[i-1])
		}
		value = v
	}
	p.first, p.last = min(p.first, times[0]), max(p.last, times[len(times)-1])
	p.seen[name]++
	p.take(p.podOf(s.Metric), name, s.Metric, times, value)
	return nil
}

// podOf returns the pod of a series. Pods of one name at different times have different UIDs.
func (p *Prometheus) podOf(labels map[string]string) *observed {
	key := labels["namespace"] + "/" + labels["pod"] + "/" + labels["uid"]
	o := p.pods[key]
	if o == nil {
		o = &observed{namespace: labels["namespace"], name: labels["pod"], first: math.Inf(1), last: math.Inf(-1)}
		p.pods[key] = o
	}
	return o
}

func (p *Prometheus) take(o *observed, name string, labels map[string]string, times []float64, value float64) {
	switch name {
	case metricInfo:
		o.info = true
		o.first, o.last = min(o.first, times[0]), max(o.last, times[len(times)-1])
	case metricOwner:
		if kind := labels["owner_kind"]; kind != "" && kind != "<none>" {
			o.owner = kind + "/" + labels["owner_name"]
		}
	case metricCompletion:
		o.done = value
	case metricRequests, metricInitRequests:
		resource, known := resourceOf(labels["resource"])
		if !known {
			p.left[labels["resource"]] = true
			return
		}
		of := &o.requests
		if name == metricInitRequests {
			of = &o.init
		}
		if *of == nil {
			*of = map[[2]string]float64{}
		}
		key := [2]string{labels["container"], resource}
		(*of)[key] = max((*of)[key], value) // two instances of kube-state-metrics report the same
	}
}

// resourceOf returns the resource for a label of kube-state-metrics, which replaces characters of its name.
func resourceOf(label string) (name string, known bool) {
	switch label {
	case "cpu", "memory":
		return label, true
	case "ephemeral_storage":
		return "ephemeral-storage", true
	}
	domain, rest, found := strings.Cut(label, "_com_")
	name = domain + ".com/" + rest
	return name, found && !strings.Contains(rest, "_") && isResource(name) // other labels are ambiguous
}

// Trace returns the trace of all added data. A pod arrives at its first sample. It departs one step after its last sample, or when it
// completes. A pod that has a sample at the end stays.
func (p *Prometheus) Trace() (*Trace, error) {
	b := newBuilder("Prometheus")
	for _, name := range []string{metricInfo, metricRequests} {
		if p.seen[name] == 0 {
			return nil, b.errorf(0, "no file holds %s: ask for %s, %s and %s", name, metricInfo, metricRequests, metricOwner)
		}
	}
	if p.seen[metricOwner] == 0 {
		b.note("no file holds %s: pods of DaemonSets and Jobs are not known as such", metricOwner)
	}
	if len(p.left) > 0 {
		b.note("requests for %s are left out: it is not known what resources these are", strings.Join(slices.Sorted(maps.Keys(p.left)), ", "))
	}
	var list []*observed
	infoless := 0
	for _, o := range p.pods {
		if !o.info {
			infoless++
			continue
		}
		list = append(list, o)
	}
	if infoless > 0 {
		b.note("%s left out that %s does not tell of: query all metrics for the same time", plural(infoless, "pod"), metricInfo)
	}
	slices.SortFunc(list, func(x, y *observed) int {
		return cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name), cmp.Compare(x.last, y.last))
	})
	if math.IsInf(p.step, 1) {
		return nil, b.errorf(0, "there is one sample of each pod: ask /api/v1/query_range for a span of time")
	}
	done := 0
	for i, o := range list {
		r, ok := p.rowOf(o)
		if !ok {
			done++
			continue
		}
		if err := b.add(r, i+1); err != nil {
			return nil, err
		}
	}
	if done > 0 {
		b.note("%s left out that had completed before", plural(done, "pod"))
	}
	return b.finish()
}

// rowOf returns false for a pod that was done before its first sample.
func (p *Prometheus) rowOf(o *observed) (*row, bool) {
	seconds := func(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) }
	r := &row{namespace: o.namespace, pod: o.name, owner: o.owner, arrival: seconds(o.first)}
	switch {
	case o.done > 0 && o.done <= o.first && o.first > p.first: // shorter than a step
		r.arrival, r.departure = seconds(o.done-min(1, o.done/2)), seconds(o.done)
	case o.done > 0 && o.done <= o.first:
		return nil, false
	case o.done > 0:
		r.departure = seconds(o.done)
	case o.last < p.last:
		r.departure = seconds(o.last + p.step)
	}
	sums := map[string]float64{}
	for key, amount := range o.requests {
		sums[key[1]] += amount
	}
	for key, amount := range o.init {
		sums[key[1]] = max(sums[key[1]], amount)
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		text := strconv.FormatFloat(math.Ceil(sums[name]), 'f', 0, 64)
		if name == "cpu" {
			text = strconv.FormatFloat(math.Round(sums[name]*1000), 'f', 0, 64) + "m"
		}
		r.resources, r.amounts = append(r.resources, name), append(r.amounts, text)
	}
	return r, true
}

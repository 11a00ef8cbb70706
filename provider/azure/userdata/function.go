package userdata

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const functionNames = "the functions are labels, taints, json, host, base64 and indent"

// mostIndent is the largest number of spaces of an indent.
const mostIndent = 100

// call calls a function. Errors depend only on the types of its arguments, never on their values.
func (v Values) call(name string, args []any) (any, error) {
	out := ""
	switch name {
	case "labels":
		if len(args) > 0 {
			return nil, fmt.Errorf("labels takes nothing: write {{ labels }}")
		}
		out = LabelList(v.Labels)
	case "taints":
		if len(args) > 0 {
			return nil, fmt.Errorf("taints takes nothing: write {{ taints }}")
		}
		out = taintList(v.Taints)
	case "json":
		if len(args) != 1 {
			return nil, fmt.Errorf("json takes one value: write {{ json .Labels }}")
		}
		out = jsonOf(args[0])
	case "host", "base64":
		texts := texts(args)
		if len(args) != 1 || len(texts) != 1 {
			return nil, fmt.Errorf("%s takes one text: write {{ %s .ClusterEndpoint }}", name, name)
		}
		if name == "host" {
			out = hostOf(texts[0])
		} else {
			out = base64.StdEncoding.EncodeToString([]byte(texts[0]))
		}
	case "indent":
		texts := texts(args)
		if len(args) != 2 || len(texts) != 1 {
			return nil, fmt.Errorf("indent takes a number and a text: write {{ .ClusterName | indent 4 }}")
		}
		by, isNumber := args[0].(int)
		if !isNumber || by < 0 || by > mostIndent {
			return nil, fmt.Errorf("indent takes a number of 0 to %d and a text: write {{ .ClusterName | indent 4 }}", mostIndent)
		}
		out = indented(texts[0], by)
	default:
		return nil, fmt.Errorf("%s is not known: %s; %s", name, functionNames, escape)
	}
	if len(out) > most {
		return nil, TooLargeError{Bytes: len(out)}
	}
	return out, nil
}

// texts returns the texts among some values.
func texts(values []any) (out []string) {
	for _, v := range values {
		if text, is := v.(string); is {
			out = append(out, text)
		}
	}
	return out
}

// LabelList returns labels in the form of a kubelet's flag, in order of name, without labels that a kubelet may not set. The controller adds
// the others later.
func LabelList(labels map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if OpenToKubelets(key) {
			out = append(out, key+"="+labels[key])
		}
	}
	return strings.Join(out, ",")
}

// OpenToKubelets reports whether a kubelet may set this label on its own node. A kubelet with another one does not start.
func OpenToKubelets(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	within := func(parents ...string) bool {
		return slices.ContainsFunc(parents, func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) })
	}
	if !strings.Contains(key, "/") || !within("kubernetes.io", "k8s.io") || within("kubelet.kubernetes.io", "node.kubernetes.io") {
		return true
	}
	return slices.Contains([]string{
		corev1.LabelHostname, corev1.LabelArchStable, corev1.LabelOSStable, "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
		corev1.LabelInstanceType, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	}, key)
}

// TaintList returns taints in the form of a kubelet's flag: each once, in order of name, with karpenter.sh/unregistered.
func TaintList(taints []corev1.Taint) string { return taintList(taintsOf(taints)) }

func taintList(taints []corev1.Taint) string {
	var out []string
	for _, t := range taints {
		if t.Value == "" {
			out = append(out, fmt.Sprintf("%s:%s", t.Key, t.Effect))
			continue
		}
		out = append(out, fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect))
	}
	return strings.Join(out, ",")
}

// jsonOf returns a value as JSON, in order of name.
func jsonOf(value any) string {
	switch v := value.(type) {
	case map[string]string:
		if v == nil {
			return "{}"
		}
	case []corev1.Taint:
		if v == nil {
			return "[]"
		}
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic("write a value of user data as JSON: " + err.Error()) // only texts, numbers and lists of them
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// hostOf returns the host and port of a URL; another text is returned unchanged.
func hostOf(text string) string {
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Host == "":
		return text
	case parsed.Port() == "":
		return strings.TrimSuffix(parsed.Host, ":") + ":443"
	}
	return parsed.Host
}

// indented returns a text with spaces before every line that is not empty.
func indented(text string, by int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = strings.Repeat(" ", by) + line
		}
	}
	return strings.Join(lines, "\n")
}

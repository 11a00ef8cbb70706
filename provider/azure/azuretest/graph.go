package azuretest

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// query answers queries to the resource graph. It knows only the part of the language that lists of machines and interfaces need, and refuses
// the rest. Answers lag by Timing.Graph, and IDs have another case than elsewhere.
func (s *Subscription) query(c *Call) answer {
	body, fault := c.object()
	if fault != nil {
		return answer{fault: fault}
	}
	clauses, fault := parseQuery(textAt(body, "query"))
	if fault != nil {
		return answer{fault: fault}
	}
	rows := []any{}
	for _, kind := range []string{vmKind, nicKind, diskKind} {
		for _, r := range s.seen(kind, s.timing.Graph) {
			row := s.row(r)
			if clauses.hold(row) {
				rows = append(rows, row)
			}
		}
	}
	total, size := len(rows), 1000
	if top, given := at(body, "options.$top").(float64); given {
		size = int(top)
	}
	from := 0
	_, _ = fmt.Sscan(textAt(body, "options.$skipToken"), &from)
	to := min(from+size, total)
	out := object{"totalRecords": total, "count": to - from, "data": rows[from:to], "facets": []any{}, "resultTruncated": "false"}
	if to < total {
		out["$skipToken"] = fmt.Sprint(to)
	}
	return ok(out)
}

// row returns a resource in the graph's form: machines with their state, the resource group in lower case, the last part of the ID in upper
// case.
func (s *Subscription) row(r *resource) object {
	body := r.body
	if r.kind == vmKind {
		body = without(s.viewed(r), "properties.osProfile")
		put(body, "properties.extended.instanceView", at(body, "properties.instanceView"))
	}
	id := strings.Replace(r.id, "/resourceGroups/"+r.group+"/", "/resourceGroups/"+strings.ToLower(r.group)+"/", 1)
	id = id[:strings.LastIndex(id, "/")+1] + strings.ToUpper(r.name())
	return object{"id": id, "name": r.name(), "type": r.kind, "location": body["location"], "resourceGroup": strings.ToLower(r.group), "subscriptionId": s.ID,
		"tags": body["tags"], "zones": body["zones"], "identity": body["identity"], "properties": body["properties"]}
}

// clause is one condition on a row.
type clause struct {
	field, operator, value string
	not                    bool
}

type clauses []clause

var (
	queryTag    = regexp.MustCompile(`^tags\s*(has_cs|has|contains)\s*['"]([^'"]*)['"]$`)
	queryNot    = regexp.MustCompile(`^not\s*\((.*)\)$`)
	queryEquals = regexp.MustCompile(`^(tags\s*\[\s*['"][^'"]+['"]\s*\]|[a-zA-Z]+)\s*(==|=~|!=)\s*['"]([^'"]*)['"]$`)
)

func parseQuery(text string) (out clauses, fault *Fault) {
	steps := strings.Split(text, "|")
	bad := func(what string) (clauses, *Fault) {
		return nil, &Fault{Status: http.StatusBadRequest, Code: "BadRequest", Message: "azuretest does not know this part of a query: " + what,
			Details: []Detail{{Code: "InvalidQuery", Message: "Query is invalid."}}}
	}
	if strings.ToLower(strings.TrimSpace(steps[0])) != "resources" {
		return bad(steps[0])
	}
	for _, step := range steps[1:] {
		step = strings.TrimSpace(step)
		condition, isWhere := strings.CutPrefix(step, "where ")
		if !isWhere {
			if strings.HasPrefix(step, "project ") || strings.HasPrefix(step, "order by id") {
				continue // rows have all fields, and are in this order
			}
			return bad(step)
		}
		for _, part := range strings.Split(condition, " and ") {
			parsed, known := parseClause(strings.TrimSpace(part))
			if !known {
				return bad(part)
			}
			out = append(out, parsed)
		}
	}
	return out, nil
}

func parseClause(text string) (clause, bool) {
	if inner := queryNot.FindStringSubmatch(text); inner != nil {
		c, known := parseClause(strings.TrimSpace(inner[1]))
		c.not = !c.not
		return c, known
	}
	if parts := queryTag.FindStringSubmatch(text); parts != nil {
		return clause{field: "tags", operator: parts[1], value: parts[2]}, true
	}
	if parts := queryEquals.FindStringSubmatch(text); parts != nil {
		return clause{field: parts[1], operator: strings.Replace(parts[2], "!=", "==", 1), value: parts[3], not: parts[2] == "!="}, true
	}
	return clause{}, false
}

func (list clauses) hold(row object) bool {
	for _, c := range list {
		if c.holds(row) == c.not {
			return false
		}
	}
	return true
}

func (c clause) holds(row object) bool {
	tags, _ := row["tags"].(object)
	if c.field == "tags" {
		for key, value := range tags {
			if text, _ := value.(string); strings.Contains(key, c.value) || strings.Contains(text, c.value) {
				return true
			}
		}
		return false
	}
	have := ""
	if strings.HasPrefix(c.field, "tags") {
		have, _ = tags[strings.Trim(c.field[len("tags"):], ` []'"`)].(string)
	} else {
		have, _ = row[c.field].(string)
	}
	if c.operator == "=~" {
		return strings.EqualFold(have, c.value)
	}
	return have == c.value
}

package userdata

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template/parse"
)

// brackets is the text at the beginning of every expression that is replaced by a value.
const brackets = "{{"

// variables returns the variables of a text, by name and in the order of lists. Their types do not depend on the values: if a text can be
// filled in once, it always can.
func variables(v Values) []variable {
	return []variable{
		{"ClusterName", v.ClusterName}, {"ClusterEndpoint", v.ClusterEndpoint}, {"ClusterCABundle", v.ClusterCABundle}, {"CACertHash", v.CACertHash},
		{"NodeClaim", v.NodeClaim}, {"NodePool", v.NodePool}, {"NodeName", v.NodeName}, {"ProviderID", v.ProviderID},
		{"KubernetesVersion", v.KubernetesVersion}, {"JoinToken", v.JoinToken}, {"Region", v.Region}, {"Zone", v.Zone},
		{"InstanceType", v.InstanceType}, {"CapacityType", v.CapacityType}, {"MaxPods", v.MaxPods}, {"Labels", v.Labels}, {"Taints", v.Taints},
	}
}

type variable struct {
	name  string
	value any // a string, an int, a map[string]string or a []corev1.Taint
}

// most is the largest size of an intermediate text, because nested functions could grow without a bound.
const most = 4 * Limit

func fill(text string, values Values) (string, error) {
	if !strings.Contains(text, brackets) {
		return text, nil
	}
	nodes, err := read(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, node := range nodes {
		part, err := values.node(node)
		if err != nil {
			return "", fmt.Errorf("spec.userData:%d: %w", 1+strings.Count(text[:node.Position()], "\n"), err)
		}
		out.WriteString(part)
		if out.Len() > most {
			return "", TooLargeError{Bytes: out.Len()}
		}
	}
	return out.String(), nil
}

// read parses a text.
func read(text string) ([]parse.Node, error) {
	const name = "spec.userData"
	trees := map[string]*parse.Tree{}
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck // functions are looked up when they are called
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		said := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "template: ")), " ")
		return nil, fmt.Errorf("%s: %s", said, escape)
	}
	delete(trees, name)
	if len(trees) > 0 {
		return nil, errors.New(name + ": {{ define }} and {{ block }} are not known")
	}
	return tree.Root.Nodes, nil
}

const escape = `{{ and }} stand around what is to be filled in; write {{ "{{" }} for braces that are meant for the machine`

// node returns the result of one part of a text.
func (v Values) node(node parse.Node) (string, error) {
	switch n := node.(type) {
	case *parse.TextNode:
		return string(n.Text), nil
	case *parse.ActionNode:
		value, err := v.pipe(n.Pipe)
		if err != nil {
			return "", err
		}
		switch value := value.(type) {
		case string:
			return value, nil
		case int:
			return strconv.Itoa(value), nil
		case map[string]string:
			return "", fmt.Errorf("%s is no text: write {{ labels }} or {{ json .Labels }}", short(n.Pipe))
		}
		return "", fmt.Errorf("%s is no text: write {{ taints }} or {{ json .Taints }}", short(n.Pipe))
	}
	return "", fmt.Errorf("%s is not known: there are no conditions and no loops; %s", short(node), escape)
}

// pipe returns the value of "a
// b
// c".
func (v Values) pipe(pipe *parse.PipeNode) (value any, err error) {
	if len(pipe.Decl) > 0 {
		return nil, fmt.Errorf("%s: variables of one's own are not known", short(pipe))
	}
	for i, command := range pipe.Cmds {
		var piped []any
		if i > 0 {
			piped = []any{value}
		}
		if value, err = v.command(command, piped); err != nil {
			return nil, err
		}
	}
	return value, nil
}

func (v Values) command(command *parse.CommandNode, piped []any) (any, error) {
	function, called := command.Args[0].(*parse.IdentifierNode)
	if !called {
		if len(command.Args) > 1 || len(piped) > 0 {
			return nil, fmt.Errorf("%s is no function: %s", short(command.Args[0]), functionNames)
		}
		return v.value(command.Args[0])
	}
	var args []any
	for _, node := range command.Args[1:] {
		arg, err := v.value(node)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return v.call(function.Ident, append(args, piped...))
}

func (v Values) value(node parse.Node) (any, error) {
	switch n := node.(type) {
	case *parse.FieldNode:
		known := variables(v)
		var names []string
		for _, k := range known {
			if len(n.Ident) == 1 && n.Ident[0] == k.name {
				return k.value, nil
			}
			names = append(names, "."+k.name)
		}
		return nil, fmt.Errorf("%s is not known: there are %s; %s", short(n), strings.Join(names, ", "), escape)
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		if n.IsInt {
			return int(n.Int64), nil
		}
	case *parse.PipeNode:
		return v.pipe(n)
	case *parse.IdentifierNode:
		return v.call(n.Ident, nil)
	}
	return nil, fmt.Errorf("%s is not known: write a variable as {{ .ClusterName }}; %s", short(node), escape)
}

// short returns a part of a text, shortened, on one line.
func short(node parse.Node) string {
	text := []rune(strings.Join(strings.Fields(node.String()), " "))
	if len(text) > 60 {
		return string(text[:57]) + "..."
	}
	return string(text)
}

package awstest

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
)

// node is an element of an XML answer. Names are kept without their name space.
type node struct {
	Name  string
	Text  string
	Nodes []*node
}

func parseXML(body []byte) (*node, error) {
	root := &node{}
	stack := []*node{root}
	decoder := xml.NewDecoder(bytes.NewReader(body))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return root, nil
		}
		if err != nil {
			return nil, err
		}
		top := stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			child := &node{Name: t.Name.Local}
			top.Nodes = append(top.Nodes, child)
			stack = append(stack, child)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if text := strings.TrimSpace(string(t)); text != "" {
				top.Text += text
			}
		}
	}
}

// all returns the elements with a name, at any depth.
func (n *node) all(name string) (out []*node) {
	for _, child := range n.Nodes {
		if child.Name == name {
			out = append(out, child)
		}
		out = append(out, child.all(name)...)
	}
	return out
}

func (n *node) text(name string) string {
	for _, child := range n.Nodes {
		if child.Name == name {
			return child.Text
		}
	}
	return ""
}

func (n *node) set(name, text string) {
	n.remove(name)
	n.Nodes = append(n.Nodes, &node{Name: name, Text: text})
}

func (n *node) remove(name string) {
	var kept []*node
	for _, child := range n.Nodes {
		if child.Name != name {
			kept = append(kept, child)
		}
	}
	n.Nodes = kept
}

func (n *node) write() []byte {
	var b bytes.Buffer
	for _, child := range n.Nodes {
		b.WriteString("<" + child.Name + ">")
		_ = xml.EscapeText(&b, []byte(child.Text))
		b.Write(child.write())
		b.WriteString("</" + child.Name + ">")
	}
	return b.Bytes()
}

package doctor

import (
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
)

// oldNames finds pods and nodes with protecting annotations that are not read any more.
func oldNames(p *Picture) []provider.Finding {
	l := list{check: "old names"}
	if p.Snapshot == nil {
		return nil
	}
	for _, n := range kube.OldNames(p.Snapshot) {
		l.warning(n.Who(), n.Sentence(), "write "+n.New+" in their templates: tenon convert -f renames it")
	}
	return l.or("no pod and no node carries an annotation that is not read any more")
}

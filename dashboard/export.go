package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"math"
)

// exportData is the content of the exported page.
type exportData struct {
	*frame
	Style    string
	Security string
	List     *nodesData
	Pending  *waitingData
	Pools    []*storyData
	Made     *decisionsData
	Money    *moneyData
}

// Export returns the page as one HTML file that loads nothing and has no scripts: all nodes in one table, the pods that wait, the
// decisions, the money, and the stories of the NodePools.
func Export(p *Picture) ([]byte, error) {
	v, err := newView(p)
	if err != nil {
		return nil, err
	}
	a, err := readAssets()
	if err != nil {
		return nil, err
	}
	style := a.served[a.names["page.css"]]
	hash := sha256.Sum256(style)
	d := &exportData{frame: newFrame(v), Style: string(style),
		Security: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'none'"}
	d.List, _ = newNodesData(defaultNodesQuery(), v, math.MaxInt32)
	d.List.Export = true
	for i := range d.List.Rows {
		d.List.Rows[i].Link = ""
	}
	if d.Pending, err = newWaitingData(v); err != nil {
		return nil, err
	}
	d.Pending.unlink()
	d.Made = newDecisionsData(decisionsQuery{page: 1}, v, math.MaxInt32)
	d.Made.Export = true
	d.Money = newMoneyData(v)
	d.Money.Export = true
	for _, name := range p.NodePools {
		e, err := p.Explain(KindPool, name)
		if err != nil {
			return nil, err
		}
		d.Pools = append(d.Pools, &storyData{Kind: KindPool, Story: e.Story, Export: true})
	}
	var out bytes.Buffer
	if err := exportedPage(d).Render(context.Background(), &out); err != nil {
		return nil, err
	}
	return visible(out.Bytes()), nil
}

// unlink removes the links, because the file has no other pages.
func (d *waitingData) unlink() {
	for _, classes := range [][]*podClass{d.Refused, d.Coming, d.Others} {
		for _, c := range classes {
			c.Link = ""
			for i := range c.On {
				c.On[i].Link = ""
			}
		}
	}
	for i := range d.Starting {
		d.Starting[i].Link = ""
	}
	for i := range d.Launches {
		d.Launches[i].PoolLink = ""
	}
}

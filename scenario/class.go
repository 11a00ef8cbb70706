package scenario

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/catalog"
)

// class reads class NAME with its words.
func (b *builder) class(name word, r *reader) error {
	c := b.classNamed(name.text)
	for r.more() {
		if err := r.next().classWord(c, r); err != nil {
			return err
		}
	}
	return nil
}

// catalog reads catalog kwok|aws|azure [class=NAME]: all instance types of a built-in catalog.
func (b *builder) catalog(name word, r *reader) error {
	types, err := catalog.ByName(name.text)
	if err != nil {
		return name.errorf("%v", err)
	}
	class := defaultClass
	for r.more() {
		w := r.next()
		key, value := w.cut()
		if key != "class" {
			return r.unknown(w, "class=")
		}
		class = value
	}
	c := b.classNamed(class)
	c.InstanceTypes = append(c.InstanceTypes, types...)
	b.ofEC2 = b.ofEC2 || name.text == catalog.NameAWS
	return nil
}

// expectDevices adds the devices of drivers to types of the built-in catalog of EC2 if a fault describes their publication. There are no
// drivers otherwise.
func (b *builder) expectDevices() {
	for _, f := range b.course.Faults {
		if f.What != "slices" || !b.ofEC2 {
			continue
		}
		for i := range b.snapshot.Classes {
			catalog.ExpectDevices(b.snapshot.Classes[i].InstanceTypes, f.Driver)
		}
	}
}

// typeLine is a parsed type statement.
type typeLine struct {
	engine.InstanceType
	class         string
	zones         []string
	price, spot   float64
	priced, spots bool
	soldOut       []string
	quota         []engine.QuotaUse // for offerings on demand
	spotQuota     []engine.QuotaUse
}

const typeWords = "cpu= mem= pods= storage= or any other resource, overhead= zones= price= spot= sold-out sold-out= " +
	"offer= arch= os= labels= attach= devices= quota= spot-quota= class="

// instanceType reads type NAME with its words.
func (b *builder) instanceType(name word, r *reader) error {
	t := typeLine{class: defaultClass, zones: []string{"a"}}
	t.Name = name.text
	t.Capacity = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	t.Labels = map[string][]string{
		corev1.LabelArchStable: {v1.ArchitectureAMD64},
		corev1.LabelOSStable:   {string(corev1.Linux)},
	}
	for r.more() {
		if err := t.word(r); err != nil {
			return err
		}
	}
	t.addOfferings()
	if len(t.Offerings) == 0 {
		return name.errorf("the type has no price: write price= for on-demand, spot= for spot, or offer=")
	}
	c := b.classNamed(t.class)
	if slices.ContainsFunc(c.InstanceTypes, func(o engine.InstanceType) bool { return o.Name == t.Name }) {
		return name.errorf("class %s has a type of this name already", t.class)
	}
	if err := t.checkSoldOut(name); err != nil {
		return err
	}
	c.InstanceTypes = append(c.InstanceTypes, t.InstanceType)
	catalog.Sort(c.InstanceTypes)
	return nil
}

func (t *typeLine) word(r *reader) (err error) {
	w := r.next()
	key, value := w.cut()
	if w.isResource() {
		return w.addResource(&t.Capacity)
	}
	switch key {
	case "overhead":
		t.Overhead, err = w.resources()
	case "zones":
		t.zones = w.list()
	case "price":
		t.price, err = w.price()
		t.priced = true
	case "spot":
		t.spot, err = w.price()
		t.spots = true
	case "sold-out":
		t.soldOut = append(t.soldOut, w.list()...)
		if !w.hasValue() {
			t.soldOut = append(t.soldOut, "*")
		}
	case "offer":
		o, err := w.offering()
		t.Offerings = append(t.Offerings, o)
		return err
	case "arch":
		t.Labels[corev1.LabelArchStable] = w.list()
	case "os":
		t.Labels[corev1.LabelOSStable] = w.list()
	case "labels":
		for _, p := range w.pairs() {
			t.Labels[labelKey(p.key)] = labelValues(p.value)
		}
	case "attach":
		t.AttachLimits, err = w.counts(volumes)
	case "devices":
		pool, err := w.devices()
		t.Claimable = append(t.Claimable, pool)
		return err
	case "quota":
		t.quota, err = w.quotaUses()
	case "spot-quota":
		t.spotQuota, err = w.quotaUses()
	case "class":
		t.class = value
	default:
		return r.unknown(w, typeWords)
	}
	return err
}

// labelValues reads the possible values of a label, such as c|m. It returns none if the text is empty.
func labelValues(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "|")
}

// offering reads offer=(zone=a capacity=spot price=0.02 labels=k:v sold-out) and offer=(zone=a reserved=r1 slots=3 price=0.01).
func (w word) offering() (engine.Offering, error) {
	o := engine.Offering{CapacityType: v1.CapacityTypeOnDemand, Slots: 1}
	r, err := w.group("offer")
	if err != nil {
		return o, err
	}
	for r.more() {
		w := r.next()
		key, value := w.cut()
		switch key {
		case "zone":
			o.Zone = value
		case "capacity":
			o.CapacityType = value
		case "price":
			if o.Price, err = w.price(); err != nil {
				return o, err
			}
		case "labels":
			w.addLabels(&o.Labels)
		case "taint":
			t, err := w.taint()
			if err != nil {
				return o, err
			}
			o.Taints = append(o.Taints, t)
		case "reserved":
			o.Reservation, o.CapacityType = value, v1.CapacityTypeReserved
			addLabel(&o.Labels, catalog.ReservationLabel, value)
		case "slots":
			if o.Slots, err = w.number(); err != nil || o.Slots < 0 {
				return o, w.errorf("write how many machines are left: slots=3")
			}
		case "quota":
			if o.Quotas, err = w.quotaUses(); err != nil {
				return o, err
			}
		case "sold-out":
			o.SoldOut = true
		default:
			return o, r.unknown(w, "zone= capacity= price= labels= taint= reserved= slots= quota= sold-out")
		}
	}
	if o.Reservation == "" {
		o.Slots = 0
	}
	return o, nil
}

// addOfferings adds the offerings of zones=, price= and spot=.
func (t *typeLine) addOfferings() {
	for _, zone := range t.zones {
		if t.priced {
			t.Offerings = append(t.Offerings, engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeOnDemand, Price: t.price, Quotas: t.quota})
		}
		if t.spots {
			t.Offerings = append(t.Offerings, engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeSpot, Price: t.spot, Quotas: t.spotQuota})
		}
	}
}

// checkSoldOut marks the offerings of sold-out=: zones, capacity types, or zone/capacity type.
func (t *typeLine) checkSoldOut(name word) error {
	for _, what := range t.soldOut {
		found := false
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if what == "*" || what == o.Zone || what == o.CapacityType || what == o.Zone+"/"+o.CapacityType {
				o.SoldOut, found = true, true
			}
		}
		if !found {
			return name.errorf("sold-out=%s: the type has no such offering", what)
		}
	}
	return nil
}

// machineLabels returns the labels of a machine of this offering.
func machineLabels(t *engine.InstanceType, o engine.Offering) map[string]string {
	labels := map[string]string{
		corev1.LabelInstanceTypeStable: t.Name,
		corev1.LabelTopologyZone:       o.Zone,
		v1.CapacityTypeLabelKey:        o.CapacityType,
	}
	for key, values := range t.Labels {
		if len(values) > 0 {
			labels[key] = values[0]
		}
	}
	for key, value := range o.Labels {
		labels[key] = value
	}
	return labels
}

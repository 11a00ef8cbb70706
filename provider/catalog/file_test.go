package catalog

import (
	"bytes"
	"maps"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
)

const goodType = `{"name":"a.large","architecture":"amd64","operatingSystems":["linux"],
 "resources":{"cpu":"2","memory":"4Gi"},
 "offerings":[{"Price":0.1,"Available":true,"Requirements":[
  {"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},
  {"key":"topology.kubernetes.io/zone","operator":"In","values":["z1"]},
  {"key":"example.com/rack","operator":"In","values":["r1"]}]}]}`

func TestReadUnderstandsTheFormat(t *testing.T) {
	short := strings.NewReplacer("a.large", "b.small", `"Available":true,"Requirements":[
  {"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},
  {"key":"topology.kubernetes.io/zone","operator":"In","values":["z1"]},
  {"key":"example.com/rack","operator":"In","values":["r1"]}]`, `"zone":"z1","capacityType":"on-demand","Available":false`,
		`"memory":"4Gi"`, `"memory":"4Gi","pods":"7","example.com/fpga":3`).Replace(goodType)
	types, err := Read(strings.NewReader("["+short+","+goodType+"]"), "types.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(types) != 2 || types[0].Name != "a.large" || types[1].Name != "b.small" {
		t.Fatalf("not ordered by name: %v", types)
	}
	long, other := types[0], types[1]
	o := long.Offerings[0]
	if o.Zone != "z1" || o.CapacityType != "spot" || o.Price != 0.1 || o.SoldOut || !maps.Equal(o.Labels, map[string]string{"example.com/rack": "r1"}) {
		t.Errorf("offering in the long form: %+v", o)
	}
	wantQuantities(t, long, long.Capacity, map[corev1.ResourceName]string{"pods": "110", "cpu": "2", "memory": "4Gi"})
	wantLabels(t, long, map[string]string{"karpenter.kwok.sh/instance-size": "large", "karpenter.kwok.sh/instance-family": "a"})
	o = other.Offerings[0]
	if o.Zone != "z1" || o.CapacityType != "on-demand" || !o.SoldOut || o.Labels != nil {
		t.Errorf("offering in the short form: %+v", o)
	}
	wantQuantities(t, other, other.Capacity, map[corev1.ResourceName]string{"pods": "7", "example.com/fpga": "3"})
}

func TestReservedOfferingsNameTheirReservationAndWhatItHasLeft(t *testing.T) {
	t.Parallel()
	content := `[{"name":"a.large","architecture":"amd64","operatingSystems":["linux"],"resources":{"cpu":"2","memory":"4Gi"},
 "attachLimits":{"ebs.csi.aws.com":25},
 "claimable":[{"driver":"gpu.example.com","count":2,"attributes":{"model":"L4"},"capacity":{"memory":"24Gi"}},{"driver":"gpu.example.com","pool":"more","count":1},{"driver":"nic.example.com","count":1}],
 "offerings":[
  {"price":0.1,"zone":"z1","capacityType":"spot","reservationCapacity":0},
  {"price":0.01,"zone":"z1","capacityType":"reserved","reservationCapacity":3},
  {"price":0.01,"zone":"z2","capacityType":"reserved","reservation":"r2","reservationCapacity":0},
  {"price":0.01,"reservationCapacity":5,"Requirements":[
   {"key":"karpenter.sh/capacity-type","operator":"In","values":["reserved"]},
   {"key":"topology.kubernetes.io/zone","operator":"In","values":["z1"]},
   {"key":"karpenter.k8s.aws/capacity-reservation-id","operator":"In","values":["cr-1"]}]},
  {"price":0.01,"zone":"z3","capacityType":"reserved"}]}]`
	types, err := Read(strings.NewReader(content), "types.json")
	if err != nil {
		t.Fatal(err)
	}
	if types[0].AttachLimits["ebs.csi.aws.com"] != 25 {
		t.Errorf("attach limits %v", types[0].AttachLimits)
	}
	if c := types[0].Claimable; len(c) != 3 || c[1].Driver != c[0].Driver || c[1].Pool != "more" || len(c[0].Devices) != 2 || c[0].Devices[1].Shape.Attributes["model"].Text != "L4" || c[0].Devices[1].Shape.Capacities["memory"].Amount != 24<<30*1000 {
		t.Errorf("devices %+v", c)
	}
	for i, want := range []engine.Offering{{}, {Reservation: "a.large-z1", Slots: 3}, {Reservation: "r2", SoldOut: true}, {Reservation: "cr-1", Slots: 5}, {}} {
		o := types[0].Offerings[i]
		if o.Reservation != want.Reservation || o.Slots != want.Slots || o.SoldOut != want.SoldOut || o.Labels[ReservationLabel] != want.Reservation {
			t.Errorf("offering %d: %+v", i, o)
		}
	}
	var text bytes.Buffer
	if err := Write(&text, types); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&text, "again")
	if err != nil || !reflect.DeepEqual(again[0].Offerings, types[0].Offerings) || !reflect.DeepEqual(again[0].AttachLimits, types[0].AttachLimits) || !reflect.DeepEqual(again[0].Claimable, types[0].Claimable) {
		t.Errorf("written and read: %+v, %v", again, err)
	}
}

func TestReadNamesTheFileTheTypeAndTheFieldThatIsWrong(t *testing.T) {
	edit := func(old, new string) string {
		if !strings.Contains(goodType, old) {
			t.Fatalf("no %s in the good type", old)
		}
		return "[" + strings.ReplaceAll(goodType, old, new) + "]"
	}
	for _, c := range []struct{ name, content, want string }{
		{"empty file", " \n", "the file is empty: it must hold a JSON array of instance types"},
		{"not JSON", "[\n{,", "line 2 is not JSON: invalid character ','"},
		{"cut short", "[" + goodType, "is not JSON: unexpected end"},
		{"an object", goodType, "a JSON object stands where an array belongs"},
		{"no types", "[]", "there are no instance types in it"},
		{"null", "null", "there are no instance types in it"},
		{"a null type", "[null]", "type number 1: name: missing"},
		{"a number as type", "[7]", "type number 1: a JSON number stands where an object belongs"},
		{"no name", edit(`"a.large"`, `""`), "type number 1: name: missing"},
		{"name is no label value", edit(`a.large`, `a large`), `name: "a large" is not a label value`},
		{"duplicate", "[" + goodType + "," + goodType + "]", "type a.large (number 2): name: the same name as type number 1"},
		{"no architecture", edit(`"architecture":"amd64",`, ``), "type a.large (number 1): architecture: missing"},
		{"no system", edit(`["linux"]`, `[]`), "operatingSystems: missing"},
		{"empty system", edit(`["linux"]`, `[""]`), "operatingSystems: missing"},
		{"system is a string", edit(`["linux"]`, `"linux"`), "operatingSystems: a JSON string stands where an array belongs"},
		{"no cpu", edit(`"cpu":"2",`, ``), "resources.cpu: missing"},
		{"no memory", edit(`,"memory":"4Gi"`, ``), "resources.memory: missing"},
		{"zero memory", edit(`"4Gi"`, `"0"`), "resources.memory: missing"},
		{"too little memory", edit(`"4Gi"`, `"1Mi"`), "resources.memory: 1Mi is less than the 10Mi that the system keeps back"},
		{"bad quantity", edit(`"4Gi"`, `"4GB"`), `resources.memory: "4GB" is not a quantity`},
		{"null quantity", edit(`"4Gi"`, `null`), `resources.memory: null is not a quantity`},
		{"object quantity", edit(`"4Gi"`, `{"a":1}`), `is not a quantity`},
		{"negative quantity", edit(`"4Gi"`, `"-4Gi"`), `resources.memory: -4Gi is negative`},
		{"bad resource", edit(`"cpu"`, `"c p u"`), `resources: "c p u" is not the name of a resource`},
		{"no driver", edit(`"offerings"`, `"claimable":[{"count":1}],"offerings"`), `claimable[0].driver: "" is not the name of a driver`},
		{"no devices", edit(`"offerings"`, `"claimable":[{"driver":"gpu.example.com"}],"offerings"`), "claimable[0].count: 0 is not from 1 to 128"},
		{"bad capacity of a device", edit(`"offerings"`, `"claimable":[{"driver":"gpu.example.com","count":1,"capacity":{"memory":"lots"}}],"offerings"`), `claimable[0].capacity.memory: "lots" is not a quantity`},
		{"a driver twice", edit(`"offerings"`, `"claimable":[{"driver":"a.example","count":1},{"driver":"a.example","count":1}],"offerings"`), "claimable[1].pool: a.example publishes another pool devices already"},
		{"a pool without a name", edit(`"offerings"`, `"claimable":[{"driver":"a.example","count":1,"pool":"A B"}],"offerings"`), `claimable[0].pool: "A B" is not the name of a pool`},
		{"no offerings", edit(`"offerings"`, `"offered"`), "offerings: missing"},
		{"no price", edit(`"Price":0.1,`, ``), "offerings[0].price: missing"},
		{"negative price", edit(`0.1`, `-0.1`), "offerings[0].price: -0.1 is negative"},
		{"price is text", edit(`0.1`, `"0.1"`), "offerings[0]: Price: a JSON string stands where a number belongs"},
		{"huge price", edit(`0.1`, `1e999`), "offerings[0]: Price"},
		{"no zone", edit(`topology.kubernetes.io/zone`, `example.com/zone`), "offerings[0].requirements: there is none for topology.kubernetes.io/zone"},
		{"no capacity type", edit(`karpenter.sh/capacity-type`, `example.com/type`), "offerings[0].requirements: there is none for karpenter.sh/capacity-type"},
		{"unknown capacity type", edit(`"spot"`, `"Spot"`), `"Spot" is none of [on-demand reserved spot]`},
		{"two zones", edit(`["z1"]`, `["z1","z2"]`), "requirements.topology.kubernetes.io/zone: it must be In with exactly one value"},
		{"other operator", edit(`"operator":"In","values":["z1"]`, `"operator":"NotIn","values":["z1"]`), "it must be In with exactly one value"},
		{"zone given twice", edit(`"Price":0.1`, `"Price":0.1,"zone":"z2"`), "requirements.topology.kubernetes.io/zone: it is given twice"},
		{"two equal offerings", edit(`"offerings":[`, `"offerings":[{"price":1,"zone":"z1","capacityType":"spot"},{"price":1,"zone":"z1","capacityType":"spot"},`), "offerings[1]: the same as offerings[0]: spot in z1"},
		{"reservation of a spot machine", edit(`"Price":0.1`, `"Price":0.1,"reservation":"r"`), "offerings[0].reservation: only offerings of capacity type reserved"},
		{"reservation without count", edit(`"spot"`, `"reserved"]},{"key":"karpenter.k8s.aws/capacity-reservation-id","operator":"In","values":["r"`), "offerings[0].reservationCapacity: missing: it is how many machines reservation r has left"},
		{"negative reservation", edit(`"Price":0.1`, `"Price":0.1,"reservationCapacity":-1`), "offerings[0].reservationCapacity: -1 is negative"},
		{"attach limit below zero", edit(`"resources"`, `"attachLimits":{"d":-1},"resources"`), "attachLimits.d: -1 is no number of volumes"},
		{"attach limit of nobody", edit(`"resources"`, `"attachLimits":{"a b":1},"resources"`), `attachLimits: "a b" is not the name of a CSI driver`},
		{"label of another field", edit(`"resources"`, `"labels":{"kubernetes.io/arch":["x"]},"resources"`), "labels.kubernetes.io/arch: this label is settled by another field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.content), "types.json")
			if err == nil {
				t.Fatal("it was accepted")
			}
			if !strings.HasPrefix(err.Error(), "instance-type file types.json: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func FuzzReadNeverPanics(f *testing.F) {
	f.Add("[" + goodType + "]")
	f.Add(`[{"name":"a","offerings":[null]}]`)
	f.Fuzz(func(t *testing.T, content string) {
		types, err := Read(strings.NewReader(content), "f")
		if err == nil && len(types) == 0 {
			t.Error("neither types nor an error")
		}
	})
}

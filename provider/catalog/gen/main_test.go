package main

import (
	"strings"
	"testing"
)

func TestConvertKeepsEveryTypeInOrder(t *testing.T) {
	header := "instance_type,arch,cpu_manufacturer,vcpus,memory_mib,clock_mhz,hypervisor,encryption_in_transit,local_nvme_gb," +
		"ebs_bandwidth_mbps,network_bandwidth_mbps,gpu_count,gpu_name,gpu_manufacturer,gpu_memory_mib,efa,default_card_enis," +
		"ipv4_per_eni,branch_enis,max_enis,network_cards,on_demand_usd_hour_us_east_1\n"
	in := header + "m5.large,amd64,intel,2,8192,3100,nitro,false,,4750,750,,,,,,3,10,9,3,1,0.096\n" +
		"g5.xlarge,amd64,amd,4,16384,0,,true,250,3500,2500,1,a10g,nvidia,22888,1,4,15,6,4,1,1.006\n" +
		"p9.huge,amd64,amd,4,16384,0,,true,250,3500,2500,1,a10g,nvidia,22888,1,4,15,6,4,1,\n" +
		"a1.large,arm64,aws,2,4096,2300,nitro,false,,3500,500,,,,,,3,10,9,3,1,0.051\n"
	var out strings.Builder
	volumes := "instance_type,max_attachments,limit_type,ebs_cards\na1.large,27,shared,1\nm5.large,26,dedicated,2\nother,1,shared,1\ng5.xlarge,25,shared,1\n"
	if err := convert(strings.NewReader(in), strings.NewReader(volumes), &out); err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(out.String(), "\n")
	want := "a1.large 0.051 arm64 aws 2 4096 2300 nitro false - 3500 500 3 10 9 3 1 27 shared\n" +
		"g5.xlarge 1.006 amd64 amd 4 16384 - - true 250 3500 2500 4 15 6 4 1 25 shared efa=1 gpu=1/a10g/nvidia/22888\n" +
		"m5.large 0.096 amd64 intel 2 8192 3100 nitro false - 4750 750 3 10 9 3 1 26 dedicated\n" +
		"p9.huge - amd64 amd 4 16384 - - true 250 3500 2500 4 15 6 4 1 - - efa=1 gpu=1/a10g/nvidia/22888\n"
	if lines != want {
		t.Errorf("got\n%swant\n%s", lines, want)
	}
	for _, empty := range [][2]string{{"", volumes}, {in, ""}} {
		if err := convert(strings.NewReader(empty[0]), strings.NewReader(empty[1]), &out); err == nil {
			t.Error("an empty table was accepted")
		}
	}
}

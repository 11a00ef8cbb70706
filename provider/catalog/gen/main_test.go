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

func TestConvertAzureShortensAndCorrectsPrices(t *testing.T) {
	in := "name,vcpu,vcpu_available,memory_gib,arch,hyperv,max_data_disks,accelerated_networking,premium_io,ephemeral_os_disk,encryption_at_host,zones," +
		"gpus,temp_disk_mib,cached_disk_bytes,nvme_disk_mib,on_demand_usd_hour,spot_usd_hour\n" +
		"Standard_M8-2ms,8,2,218.75,amd64,V1+V2,8,true,true,true,true,1+3,0,262144,851477266432,,1.5,0.3\n" +
		"Standard_D4as_v5,4,4,16,amd64,V1+V2,8,true,true,false,true,1+2+3,0,,,,0.172,0.036\n" +
		"Standard_D2as_v5,2,2,8,amd64,V1+V2,4,true,true,false,true,1+2+3,0,,,,0.178,0.018\n" +
		"Standard_D8as_v5,8,8,32,amd64,V1+V2,16,true,true,false,true,1+2+3,0,,,,0.344,0.072\n" +
		"Standard_NC4pas_T4_v3,4,,28,arm64,V2,,false,,,,,1,0,,,,\n"
	var out strings.Builder
	if err := convertAzure(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.TrimPrefix(out.String(), azureHeader)
	want := "D2as_v5 0.086 0.018 2 8192 12 4 ahp 123\n" +
		"D4as_v5 0.172 0.036 4 16384 12 8 ahp 123\n" +
		"D8as_v5 0.344 0.072 8 32768 12 16 ahp 123\n" +
		"M8-2ms 1.5 0.3 8/2 224000 12 8 aehp 13 temp=262144 cache=851477266432\n" +
		"NC4pas_T4_v3 - - 4 28672 2 - r - gpus=1\n"
	if lines != want {
		t.Errorf("got\n%swant\n%s", lines, want)
	}
	if err := convertAzure(strings.NewReader(""), &out); err == nil {
		t.Error("an empty table was accepted")
	}
}

package catalog

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Zone is a zone of EC2. ID, if it is known, is the zone's name in every account.
type Zone struct{ Name, ID string }

// zoneName matches the names of zones: us-east-1a, the local zone us-west-2-lax-1a, and us-east-1-wl1-bos-wlz-1 for Wavelength.
var zoneName = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)+-\d+)([a-z]|-[a-z]+-\d+[a-z]|-wl\d+-[a-z]+-wlz-\d+)$`)

// zoneID matches the IDs of zones: use1-az1, usw2-lax1-az1 and use1-wl1-bos-wlz1.
var zoneID = regexp.MustCompile(`^([a-z]+\d+)-(?:([a-z]+)(\d+)-)?az(\d+)$|^([a-z]+\d+)-(wl\d+)-([a-z]+)-wlz(\d+)$`)

var regionName = regexp.MustCompile(`^([a-z]+)((?:-[a-z]+)*)-(north|south|east|west|central|northeast|southeast|northwest|southwest)-(\d+)$`)

// IsRegion reports whether a name has the form of a region's name.
func IsRegion(name string) bool { return regionName.MatchString(name) }

// RegionOf returns the region of a zone, "" if the name does not have the form of EC2's zones.
func RegionOf(zone string) string {
	match := zoneName.FindStringSubmatch(zone)
	if match == nil || !IsRegion(match[1]) {
		return ""
	}
	return match[1]
}

// UsualZones returns the three zones of a region that most accounts have, in order; for a region with two zones, both.
func UsualZones(region string) (out []Zone) {
	letters := "abc"
	switch region {
	case "us-west-1":
		letters = "ac"
	case "ap-northeast-1":
		letters = "acd"
	case "ca-central-1", "cn-north-1":
		letters = "abd"
	}
	for _, letter := range letters {
		out = append(out, Zone{Name: region + string(letter)})
	}
	return out
}

// regions returns the regions whose zone IDs RegionOfID can read.
func regions() []string {
	return strings.Fields(`af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2
		ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-6 ap-southeast-7 ca-central-1
		ca-west-1 cn-north-1 cn-northwest-1 eu-central-1 eu-central-2 eu-north-1 eu-south-1 eu-south-2 eu-west-1 eu-west-2
		eu-west-3 il-central-1 me-central-1 me-south-1 mx-central-1 sa-east-1 us-east-1 us-east-2 us-gov-east-1 us-gov-west-1
		us-west-1 us-west-2`)
}

// short returns the abbreviation of a region in zone IDs: use1 for us-east-1, apne2 for ap-northeast-2, usgw1 for us-gov-west-1.
func short(region string) string {
	match := regionName.FindStringSubmatch(region)
	if match == nil {
		return ""
	}
	out := match[1]
	for word := range strings.SplitSeq(strings.Trim(match[2], "-"), "-") {
		out += word[:min(1, len(word))]
	}
	for _, direction := range []string{"north", "south", "east", "west", "central"} {
		if strings.HasPrefix(match[3], direction) {
			out += direction[:1]
			if rest := strings.TrimPrefix(match[3], direction); rest != "" {
				out += rest[:1]
			}
			break
		}
	}
	return out + match[4]
}

// RegionOfID returns the region of a zone's ID, "" if the ID does not belong to a known region.
func RegionOfID(id string) string {
	match := zoneID.FindStringSubmatch(id)
	if match == nil {
		return ""
	}
	i := slices.IndexFunc(regions(), func(r string) bool { return short(r) == cmp.Or(match[1], match[5]) })
	if i < 0 {
		return ""
	}
	return regions()[i]
}

// ZoneOfID returns a zone that may have this ID, "" if no zone can. Each account maps letters to IDs differently: this function maps az1 to
// a, az2 to b and so on.
func ZoneOfID(id string) string {
	region := RegionOfID(id)
	if region == "" {
		return ""
	}
	match := zoneID.FindStringSubmatch(id)
	if match[6] != "" {
		return region + "-" + match[6] + "-" + match[7] + "-wlz-" + match[8]
	}
	letter := letterOf(match[4])
	if letter == "" {
		return ""
	}
	if match[2] != "" {
		return region + "-" + match[2] + "-" + match[3] + letter
	}
	return region + letter
}

func letterOf(number string) string {
	if len(number) != 1 || number == "0" {
		return ""
	}
	return string(rune('a' + number[0] - '1'))
}

// IDOf returns the ID that ZoneOfID maps to this zone.
func IDOf(zone string) string {
	match := zoneName.FindStringSubmatch(zone)
	if match == nil || short(match[1]) == "" {
		return ""
	}
	prefix, rest := short(match[1]), match[2]
	if len(rest) == 1 {
		return prefix + "-az" + string(rune('1'+rest[0]-'a'))
	}
	parts := strings.Split(strings.TrimPrefix(rest, "-"), "-")
	if len(parts) == 4 { // parts are wl1, bos, wlz, 1
		return prefix + "-" + parts[0] + "-" + parts[1] + "-wlz" + parts[3]
	}
	last := len(parts[1]) - 1
	return prefix + "-" + parts[0] + parts[1][:last] + "-az" + string(rune('1'+parts[1][last]-'a'))
}

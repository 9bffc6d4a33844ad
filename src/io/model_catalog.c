/*
 * The models with names. Figures of data sheets are in the sheets beside them; what no data sheet
 * tells (channels, program times, garbage collection) is set so that the model reaches them, which
 * `firn device check` shows and a test holds. MB in a source are 10^6 bytes, MiB here 2^20.
 */
#include "base/check.h"
#include "io/model.h"

#define MIB (UINT64_C(1) << 20)

/* The full stroke is not in the data sheet; it is that of the family. */
#define DISK_7200                                                                                  \
    {                                                                                              \
        .capacity_bytes = UINT64_C(1000204886016), .rpm = 7200, .seek_track_ms = 0.8,              \
        .seek_average_ms = 8.5, .seek_full_ms = 16, .rate_outer_mib_s = 100,                       \
        .rate_inner_mib_s = 52, .command_us = 60, .interface_mib_s = 286, .queue_depth = 32,       \
        .read_ahead_bytes = 2 * MIB, .write_cache = true, .write_cache_bytes = 24 * MIB,           \
    }

#define DISK_15K                                                                                   \
    {                                                                                              \
        .capacity_bytes = UINT64_C(300000000000), .rpm = 15000, .seek_track_ms = 0.2,              \
        .seek_average_ms = 3.4, .seek_full_ms = 6.6, .rate_outer_mib_s = 194.5,                    \
        .rate_inner_mib_s = 116.3, .command_us = 50, .interface_mib_s = 572, .queue_depth = 64,    \
        .read_ahead_bytes = 2 * MIB, .write_cache = false,                                         \
    }

#define CONTROLLER .stripe_bytes = 65536, .cache_us = 50, .cache_mib_s = 1000

/* A steady drive at its interface's limit, so that its dips are all there is to find. */
#define SSD_TEST                                                                                   \
    .capacity_bytes = 256000 * MIB, .channels = 16, .page_bytes = 4096, .read_us = 80,             \
    .program_us = 200, .command_us = 10, .write_us = 20, .read_mib_s = 100, .write_mib_s = 100,    \
    .write_buffer_bytes = 1 * MIB, .power_protected = true, .flush_us = 50

struct catalog_entry {
    struct model_spec spec;
    struct model_sheet sheet;
};

static const struct catalog_entry catalog[] = {
    {
        {.name = "hdd-7200",
         .text = "SATA disk, 7200 rpm, 1 TB, its own write cache on",
         .kind = MODEL_DISK,
         .disk = DISK_7200,
         .members = 1,
         CONTROLLER},
        {.read_us = 12660,
         .read_mib_s = 100,
         .write_mib_s = 100,
         .block_bytes = 4096,
         .source = "Seagate Barracuda ES.2 ST31000340NS, product manual: average read seek 8.5 ms, "
                   "average latency 4.16 ms, sustained transfer 105 MB/s at the outer diameter"},
    },
    {
        {.name = "hdd-15k",
         .text = "SAS disk, 15,000 rpm, 300 GB, write cache off",
         .kind = MODEL_DISK,
         .disk = DISK_15K,
         .members = 1,
         CONTROLLER},
        {.read_us = 5400,
         .read_mib_s = 194.5,
         .write_mib_s = 194.5,
         .block_bytes = 4096,
         .source = "Seagate Cheetah 15K.7 ST3300657SS, product manual 100516226: average read seek "
                   "3.4 ms, average latency 2.0 ms, sustained transfer 122 to 204 MB/s"},
    },
    {
        {.name = "hdd-7200-raid10x8",
         .text = "RAID 10 of 8 SATA disks, 7200 rpm, controller with 512 MiB protected write cache",
         .kind = MODEL_DISK,
         .disk = DISK_7200,
         .raid = MODEL_RAID_10,
         .members = 8,
         CONTROLLER,
         .cache_bytes = 512 * MIB},
        {.read_us = 9470,
         .read_mib_s = 400,
         .write_mib_s = 400,
         .block_bytes = 4096,
         .source = "4 mirrored pairs of the disk of hdd-7200 (Seagate Barracuda ES.2): a stream "
                   "runs at 4 times its rate, the nearer of two heads travels 5/24 of the stroke "
                   "instead of 1/3 (Bitton and Gray, Disk Shadowing, 1988)"},
    },
    {
        {.name = "hdd-15k-raid1",
         .text = "RAID 1 of 2 SAS disks, 15,000 rpm, controller with 512 MiB protected write cache",
         .kind = MODEL_DISK,
         .disk = DISK_15K,
         .raid = MODEL_RAID_1,
         .members = 2,
         CONTROLLER,
         .cache_bytes = 512 * MIB},
        {.read_us = 4125,
         .read_mib_s = 389,
         .write_mib_s = 194.5,
         .block_bytes = 4096,
         .source = "a mirrored pair of the disk of hdd-15k (Seagate Cheetah 15K.7): a stream of "
                   "several large reads runs at the rate of both, of writes at that of one; the "
                   "nearer of two heads travels 5/24 of the stroke instead of 1/3 (Bitton and "
                   "Gray, Disk Shadowing, 1988)"},
    },
    {
        {.name = "ssd-x25e",
         .text = "SATA SLC SSD of the Intel X25-E kind, 32 GB, volatile write buffer",
         .kind = MODEL_SSD,
         .ssd = {.capacity_bytes = UINT64_C(32000000000),
                 .channels = 10,
                 .page_bytes = 4096,
                 .read_us = 30,
                 .program_us = 241,
                 .random_write_us = 2789,
                 .command_us = 28.5,
                 .write_us = 40,
                 .read_mib_s = 238.4,
                 .write_mib_s = 238.4,
                 .write_buffer_bytes = MIB / 4,
                 .flush_us = 400},
         .members = 1,
         CONTROLLER},
        {.read_iops = 35000,
         .write_iops = 3300,
         .read_us = 75,
         .read_mib_s = 238.4,
         .write_mib_s = 162.1,
         .block_bytes = 4096,
         .source = "Intel X25-E Extreme SSDSA2SH032G1GN, data sheet: random 4 KB reads 35,000/s, "
                   "writes 3,300/s, read latency 75 us, sequential 250 and 170 MB/s"},
    },
    {
        {.name = "ssd-sata",
         .text = "consumer SATA TLC SSD, 250 GB, nearly full: garbage collection makes its writes "
                 "unsteady",
         .kind = MODEL_SSD,
         .ssd = {.capacity_bytes = UINT64_C(250000000000),
                 .channels = 32,
                 .page_bytes = 16384,
                 .read_us = 82,
                 .program_us = 1748,
                 .random_write_us = 3862,
                 .command_us = 10.2,
                 .write_us = 10,
                 .read_mib_s = 515,
                 .write_mib_s = 496,
                 .write_buffer_bytes = 4 * MIB,
                 .flush_us = 1000,
                 .gc_pause_ms = 250,
                 .gc_pause_mib = 50},
         .members = 1,
         CONTROLLER},
        {.read_iops = 97000,
         .write_iops = 6500,
         .read_us = 100,
         .read_mib_s = 515,
         .write_mib_s = 286,
         .block_bytes = 4096,
         .source =
             "Samsung SSD 850 EVO 250 GB, data sheet: random 4 KB reads 97,000/s and 10,000/s "
             "one at a time, sequential reads 540 MB/s, writes 300 MB/s past its SLC buffer; "
             "5,000 to 8,000 random writes/s, second by second, in steady state as measured by "
             "AnandTech (2014), so that no pause takes half a second"},
    },
    {
        {.name = "ssd-sata-dc",
         .text = "data-centre SATA MLC SSD, 400 GB, steady when full, protected write buffer",
         .kind = MODEL_SSD,
         .ssd = {.capacity_bytes = UINT64_C(400000000000),
                 .channels = 32,
                 .page_bytes = 16384,
                 .read_us = 130,
                 .program_us = 1140,
                 .random_write_us = 604,
                 .command_us = 13,
                 .write_us = 44,
                 .read_mib_s = 477,
                 .write_mib_s = 477,
                 .write_buffer_bytes = 16 * MIB,
                 .power_protected = true,
                 .flush_us = 60},
         .members = 1,
         CONTROLLER},
        {.read_iops = 75000,
         .write_iops = 36000,
         .read_us = 151,
         .read_mib_s = 477,
         .write_mib_s = 439,
         .block_bytes = 4096,
         .source = "Intel SSD DC S3700 400 GB, product specification: random 4 KB reads 75,000/s, "
                   "writes 36,000/s, sequential 500 and 460 MB/s; 6,600 reads/s one at a time as "
                   "measured by AnandTech (2014)"},
    },
    {
        {.name = "ssd-slc-enterprise",
         .text = "enterprise SLC SSD, 200 GB; under writes, 10 s at 59 % of its speed every 20 min",
         .kind = MODEL_SSD,
         .ssd = {.capacity_bytes = UINT64_C(200000000000),
                 .channels = 16,
                 .page_bytes = 4096,
                 .read_us = 180,
                 .program_us = 312,
                 .random_write_us = 441,
                 .command_us = 20,
                 .write_us = 40,
                 .read_mib_s = 222,
                 .write_mib_s = 222,
                 .write_buffer_bytes = 8 * MIB,
                 .power_protected = true,
                 .flush_us = 60,
                 .dip_period_s = 1200,
                 .dip_length_s = 10,
                 .dip_speed = 87.0 / 148,
                 .dip_needs_writes = true},
         .members = 1,
         CONTROLLER},
        {.read_iops = 14208,
         .write_iops = 9472,
         .read_mib_s = 222,
         .block_bytes = 16384,
         .source = "a published sysbench fileio series on such a device, 16 KiB: random reads "
                   "222 MiB/s, writes 148 MiB/s with drops to 87 MiB/s every 20 minutes"},
    },
    {
        {.name = "ssd-pcie",
         .text = "PCIe MLC SSD of the FusionIO ioDrive kind, 320 GB, nearly full",
         .kind = MODEL_SSD,
         .ssd = {.capacity_bytes = UINT64_C(320000000000),
                 .channels = 24,
                 .page_bytes = 4096,
                 .read_us = 85,
                 .program_us = 193,
                 .random_write_us = 2489,
                 .command_us = 8,
                 .write_us = 10,
                 .read_mib_s = 668,
                 .write_mib_s = 668,
                 .write_buffer_bytes = 16 * MIB,
                 .power_protected = true,
                 .flush_us = 20},
         .members = 1,
         CONTROLLER},
        {.read_iops = 42700,
         .write_iops = 7360,
         .read_us = 117,
         .read_mib_s = 668,
         .write_mib_s = 486,
         .block_bytes = 16384,
         .source = "FusionIO ioDrive, data sheet (320 GB MLC): 700 and 510 MB/s; 16 KiB random "
                   "reads 140 MB/s by one thread and 700 MB/s by 32 (Percona, 2009), random writes "
                   "110 to 120 MiB/s when full (ssdperformanceblog.com, 2011)"},
    },
    {
        {.name = "nvme",
         .text = "data-centre NVMe MLC SSD, 2 TB, protected write buffer",
         .kind = MODEL_SSD,
         .ssd = {.capacity_bytes = UINT64_C(2000000000000),
                 .channels = 64,
                 .page_bytes = 16384,
                 .read_us = 105,
                 .program_us = 524,
                 .random_write_us = 235,
                 .command_us = 2.15,
                 .write_us = 16,
                 .read_mib_s = 2670,
                 .write_mib_s = 2670,
                 .write_buffer_bytes = 32 * MIB,
                 .power_protected = true,
                 .flush_us = 10},
         .members = 1,
         CONTROLLER},
        {.read_iops = 460000,
         .write_iops = 175000,
         .read_us = 112,
         .read_mib_s = 2670,
         .write_mib_s = 1907,
         .block_bytes = 4096,
         .source = "Intel SSD DC P3700 2 TB, product specification 330566: random 4 KB reads "
                   "460,000/s, writes 175,000/s, sequential 2800 and 2000 MB/s; 8,900 reads/s one "
                   "at a time as measured by AnandTech (2014)"},
    },
    {
        {.name = "test-stall",
         .text = "test device, like none you can buy: stands still for the last 4 s of every 10 s",
         .kind = MODEL_SSD,
         .ssd = {SSD_TEST, .dip_period_s = 10, .dip_length_s = 4, .dip_speed = 0},
         .members = 1,
         CONTROLLER},
        {.read_iops = 6400,
         .write_iops = 6400,
         .read_mib_s = 100,
         .write_mib_s = 100,
         .block_bytes = 16384,
         .source = "no device: 100 MiB/s each way outside its dips, by definition"},
    },
    {
        {.name = "test-slowdown",
         .text = "test device, like none you can buy: runs at 60 % for the last 10 s of every 60 s",
         .kind = MODEL_SSD,
         .ssd = {SSD_TEST, .dip_period_s = 60, .dip_length_s = 10, .dip_speed = 0.6},
         .members = 1,
         CONTROLLER},
        {.read_iops = 6400,
         .write_iops = 6400,
         .read_mib_s = 100,
         .write_mib_s = 100,
         .block_bytes = 16384,
         .source = "no device: 100 MiB/s each way outside its dips, by definition"},
    },
};

unsigned model_count(void)
{
    return ARRAY_COUNT(catalog);
}

const struct model_spec *model_at(unsigned number)
{
    ASSERT(number < ARRAY_COUNT(catalog));
    return &catalog[number].spec;
}

const struct model_sheet *model_sheet_at(unsigned number)
{
    ASSERT(number < ARRAY_COUNT(catalog));
    return &catalog[number].sheet;
}

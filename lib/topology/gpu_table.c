/* What cannot be read from PCI: how much memory a GPU has and how wide the addresses of its page
   tables are, by its ids. An id that has been sold with different sizes is not in the table. */
#include "topology/topology.h"

/* GiB of memory of the device of this id; of one of its GPUs, where a board has several. */
struct gpu {
    uint16_t device;
    uint16_t gib;
};

static const struct gpu nvidia[] = {
    {0x06d2, 6},   /* Tesla M2070 */
    {0x1001, 6},   /* GTX TITAN Z */
    {0x1005, 6},   /* GTX TITAN */
    {0x100a, 3},   /* GTX 780 Ti */
    {0x100c, 6},   /* GTX TITAN Black */
    {0x101e, 6},   /* Tesla K20X */
    {0x101f, 5},   /* Tesla K20 */
    {0x1020, 6},   /* Tesla K20X */
    {0x1021, 6},   /* Tesla K20Xm */
    {0x1022, 5},   /* Tesla K20c */
    {0x1023, 12},  /* Tesla K40m */
    {0x1024, 12},  /* Tesla K40c */
    {0x1026, 5},   /* Tesla K20s */
    {0x1027, 12},  /* Tesla K40st */
    {0x1028, 5},   /* Tesla K20m */
    {0x1029, 12},  /* Tesla K40s */
    {0x102a, 12},  /* Tesla K40t */
    {0x102d, 12},  /* Tesla K80 */
    {0x102e, 12},  /* Tesla K40d */
    {0x1091, 6},   /* Tesla M2090 */
    {0x1094, 6},   /* Tesla M2075 */
    {0x118f, 4},   /* Tesla K10 */
    {0x13bd, 8},   /* Tesla M10 */
    {0x13c0, 4},   /* GTX 980 */
    {0x13c2, 4},   /* GTX 970 */
    {0x13f2, 8},   /* Tesla M60 */
    {0x13f3, 8},   /* Tesla M6 */
    {0x1431, 4},   /* Tesla M4 */
    {0x15f0, 16},  /* Quadro GP100 */
    {0x15f7, 12},  /* Tesla P100 PCIe 12GB */
    {0x15f8, 16},  /* Tesla P100 PCIe 16GB */
    {0x15f9, 16},  /* Tesla P100 SXM2 16GB */
    {0x17c2, 12},  /* GTX TITAN X */
    {0x17c8, 6},   /* GTX 980 Ti */
    {0x1b00, 12},  /* TITAN X */
    {0x1b02, 12},  /* TITAN Xp */
    {0x1b06, 11},  /* GTX 1080 Ti */
    {0x1b30, 24},  /* Quadro P6000 */
    {0x1b38, 24},  /* Tesla P40 */
    {0x1b80, 8},   /* GTX 1080 */
    {0x1b81, 8},   /* GTX 1070 */
    {0x1b82, 8},   /* GTX 1070 Ti */
    {0x1b83, 6},   /* GTX 1060 6GB */
    {0x1b84, 3},   /* GTX 1060 3GB */
    {0x1ba0, 8},   /* GTX 1080 Mobile */
    {0x1ba1, 8},   /* GTX 1070 Mobile */
    {0x1bb0, 16},  /* Quadro P5000 */
    {0x1bb1, 8},   /* Quadro P4000 */
    {0x1bb3, 8},   /* Tesla P4 */
    {0x1bb4, 16},  /* Tesla P6 */
    {0x1bb5, 16},  /* Quadro P5200 Mobile */
    {0x1bb6, 16},  /* Quadro P5000 Mobile */
    {0x1bb7, 8},   /* Quadro P4000 Mobile */
    {0x1bb8, 6},   /* Quadro P3000 Mobile */
    {0x1be0, 8},   /* GTX 1080 Mobile */
    {0x1be1, 8},   /* GTX 1070 Mobile */
    {0x1c02, 3},   /* GTX 1060 3GB */
    {0x1c03, 6},   /* GTX 1060 6GB */
    {0x1c04, 5},   /* GTX 1060 5GB */
    {0x1c06, 6},   /* GTX 1060 6GB Rev. 2 */
    {0x1c30, 5},   /* Quadro P2000 */
    {0x1c31, 5},   /* Quadro P2200 */
    {0x1c60, 6},   /* GTX 1060 Mobile 6GB */
    {0x1c81, 2},   /* GTX 1050 */
    {0x1c82, 4},   /* GTX 1050 Ti */
    {0x1c83, 3},   /* GTX 1050 3GB */
    {0x1cb1, 4},   /* Quadro P1000 */
    {0x1cb2, 2},   /* Quadro P600 */
    {0x1cb3, 2},   /* Quadro P400 */
    {0x1d01, 2},   /* GT 1030 */
    {0x1d81, 12},  /* TITAN V */
    {0x1db1, 16},  /* Tesla V100 SXM2 16GB */
    {0x1db2, 16},  /* Tesla V100 DGXS 16GB */
    {0x1db3, 16},  /* Tesla V100 FHHL 16GB */
    {0x1db4, 16},  /* Tesla V100 PCIe 16GB */
    {0x1db5, 32},  /* Tesla V100 SXM2 32GB */
    {0x1db6, 32},  /* Tesla V100 PCIe 32GB */
    {0x1db7, 32},  /* Tesla V100 DGXS 32GB */
    {0x1db8, 32},  /* Tesla V100 SXM3 32GB */
    {0x1dba, 32},  /* Quadro GV100 */
    {0x1df5, 16},  /* Tesla V100 SXM2 16GB */
    {0x1df6, 32},  /* Tesla V100S PCIe 32GB */
    {0x1e02, 24},  /* TITAN RTX */
    {0x1e04, 11},  /* RTX 2080 Ti */
    {0x1e07, 11},  /* RTX 2080 Ti Rev. A */
    {0x1e36, 24},  /* Quadro RTX 6000 */
    {0x1e81, 8},   /* RTX 2080 SUPER */
    {0x1e82, 8},   /* RTX 2080 */
    {0x1e84, 8},   /* RTX 2070 SUPER */
    {0x1e87, 8},   /* RTX 2080 Rev. A */
    {0x1e89, 6},   /* RTX 2060 */
    {0x1e90, 8},   /* RTX 2080 Mobile */
    {0x1e91, 8},   /* RTX 2070 SUPER Mobile / Max-Q */
    {0x1e93, 8},   /* RTX 2080 SUPER Mobile / Max-Q */
    {0x1eb0, 16},  /* Quadro RTX 5000 */
    {0x1eb1, 8},   /* Quadro RTX 4000 */
    {0x1eb5, 16},  /* Quadro RTX 5000 Mobile / Max-Q */
    {0x1eb6, 8},   /* Quadro RTX 4000 Mobile / Max-Q */
    {0x1eb8, 16},  /* Tesla T4 */
    {0x1ec2, 8},   /* RTX 2070 SUPER */
    {0x1ec7, 8},   /* RTX 2070 SUPER */
    {0x1ed0, 8},   /* RTX 2080 Mobile */
    {0x1ed1, 8},   /* RTX 2070 SUPER Mobile / Max-Q */
    {0x1ed3, 8},   /* RTX 2080 SUPER Mobile / Max-Q */
    {0x1ef5, 16},  /* Quadro RTX 5000 Mobile Refresh */
    {0x1f02, 8},   /* RTX 2070 */
    {0x1f03, 12},  /* RTX 2060 12GB */
    {0x1f06, 8},   /* RTX 2060 SUPER */
    {0x1f07, 8},   /* RTX 2070 Rev. A */
    {0x1f08, 6},   /* RTX 2060 Rev. A */
    {0x1f09, 6},   /* GTX 1660 SUPER */
    {0x1f10, 8},   /* RTX 2070 Mobile */
    {0x1f11, 6},   /* RTX 2060 Mobile */
    {0x1f12, 6},   /* RTX 2060 Max-Q */
    {0x1f14, 8},   /* RTX 2070 Mobile / Max-Q Refresh */
    {0x1f15, 6},   /* RTX 2060 Mobile */
    {0x1f36, 6},   /* Quadro RTX 3000 Mobile / Max-Q */
    {0x1f42, 8},   /* RTX 2060 SUPER */
    {0x1f47, 8},   /* RTX 2060 SUPER */
    {0x1f50, 8},   /* RTX 2070 Mobile / Max-Q */
    {0x1f51, 6},   /* RTX 2060 Mobile */
    {0x1f54, 8},   /* RTX 2070 Mobile */
    {0x1f55, 6},   /* RTX 2060 Mobile */
    {0x1f82, 4},   /* GTX 1650 */
    {0x1f83, 4},   /* GTX 1630 */
    {0x1f91, 4},   /* GTX 1650 Mobile / Max-Q */
    {0x1f92, 4},   /* GTX 1650 Mobile */
    {0x1f94, 4},   /* GTX 1650 Mobile */
    {0x1f95, 4},   /* GTX 1650 Ti Mobile */
    {0x1f96, 4},   /* GTX 1650 Mobile / Max-Q */
    {0x1f9d, 4},   /* GTX 1650 Mobile / Max-Q */
    {0x1ff2, 4},   /* T400 4GB */
    {0x20b0, 40},  /* A100 SXM4 40GB */
    {0x20b1, 40},  /* A100 PCIe 40GB */
    {0x20b2, 80},  /* A100 SXM4 80GB */
    {0x20b3, 64},  /* A100-SXM-64GB */
    {0x20b5, 80},  /* A100 PCIe 80GB */
    {0x20b7, 24},  /* A30 PCIe */
    {0x20b8, 80},  /* A100X */
    {0x20b9, 24},  /* A30X */
    {0x20bd, 40},  /* A800 SXM4 40GB */
    {0x20f1, 40},  /* A100 PCIe 40GB */
    {0x20f3, 80},  /* A800-SXM4-80GB */
    {0x20f5, 80},  /* A800 80GB PCIe */
    {0x20f6, 40},  /* A800 40GB PCIe */
    {0x2182, 6},   /* GTX 1660 Ti */
    {0x2184, 6},   /* GTX 1660 */
    {0x2187, 4},   /* GTX 1650 SUPER */
    {0x2188, 4},   /* GTX 1650 */
    {0x2189, 6},   /* CMP 30HX */
    {0x2191, 6},   /* GTX 1660 Ti Mobile */
    {0x2192, 4},   /* GTX 1650 Ti Mobile */
    {0x21c4, 6},   /* GTX 1660 SUPER */
    {0x21d1, 6},   /* GTX 1660 Ti Mobile */
    {0x2203, 24},  /* RTX 3090 Ti */
    {0x2204, 24},  /* RTX 3090 */
    {0x2206, 10},  /* RTX 3080 */
    {0x2208, 12},  /* RTX 3080 Ti */
    {0x220a, 12},  /* RTX 3080 12GB */
    {0x220d, 10},  /* CMP 90HX */
    {0x2216, 10},  /* RTX 3080 Lite Hash Rate */
    {0x2230, 48},  /* RTX A6000 */
    {0x2231, 24},  /* RTX A5000 */
    {0x2232, 20},  /* RTX A4500 */
    {0x2233, 24},  /* RTX A5500 */
    {0x2235, 48},  /* A40 */
    {0x2236, 24},  /* A10 */
    {0x2237, 24},  /* A10G */
    {0x2321, 94},  /* H100 NVL */
    {0x2322, 80},  /* H800 PCIe */
    {0x2324, 80},  /* H800 */
    {0x2329, 96},  /* H20 */
    {0x2330, 80},  /* H100 SXM5 80GB */
    {0x2331, 80},  /* H100 PCIe */
    {0x2335, 141}, /* H200 SXM */
    {0x233b, 141}, /* H200 NVL */
    {0x2342, 96},  /* GH200 with 96 GB */
    {0x2414, 8},   /* RTX 3060 Ti */
    {0x2420, 16},  /* RTX 3080 Ti Mobile */
    {0x2438, 16},  /* RTX A5500 Laptop GPU */
    {0x2460, 16},  /* RTX 3080 Ti Laptop GPU */
    {0x2482, 8},   /* RTX 3070 Ti */
    {0x2484, 8},   /* RTX 3070 */
    {0x2486, 8},   /* RTX 3060 Ti */
    {0x2487, 12},  /* RTX 3060 */
    {0x2488, 8},   /* RTX 3070 Lite Hash Rate */
    {0x2489, 8},   /* RTX 3060 Ti Lite Hash Rate */
    {0x249d, 8},   /* RTX 3070 Mobile / Max-Q */
    {0x24a0, 8},   /* Geforce RTX 3070 Ti Laptop GPU */
    {0x24b0, 16},  /* RTX A4000 */
    {0x24b1, 16},  /* RTX A4000H */
    {0x24b6, 16},  /* RTX A5000 Mobile */
    {0x24b7, 8},   /* RTX A4000 Mobile */
    {0x24b8, 6},   /* RTX A3000 Mobile */
    {0x24b9, 12},  /* RTX A3000 12GB Laptop GPU */
    {0x24ba, 16},  /* RTX A4500 Laptop GPU */
    {0x24c7, 12},  /* RTX 3060 GDDR6X */
    {0x24c9, 8},   /* RTX 3060 Ti GDDR6X */
    {0x24dd, 8},   /* RTX 3070 Mobile / Max-Q */
    {0x24e0, 8},   /* Geforce RTX 3070 Ti Laptop GPU */
    {0x2503, 12},  /* RTX 3060 */
    {0x2504, 12},  /* RTX 3060 Lite Hash Rate */
    {0x2507, 8},   /* Geforce RTX 3050 */
    {0x2509, 12},  /* RTX 3060 12GB Rev. 2 */
    {0x2520, 6},   /* RTX 3060 Mobile / Max-Q */
    {0x2531, 6},   /* RTX A2000 */
    {0x2544, 12},  /* RTX 3060 */
    {0x2560, 6},   /* RTX 3060 Mobile / Max-Q */
    {0x2571, 12},  /* RTX A2000 12GB */
    {0x2582, 8},   /* RTX 3050 8GB */
    {0x2583, 4},   /* RTX 3050 4GB */
    {0x2584, 6},   /* RTX 3050 6GB */
    {0x25a0, 4},   /* RTX 3050 Ti Mobile */
    {0x25a2, 4},   /* RTX 3050 Mobile */
    {0x25b6, 16},  /* A2 / A16 */
    {0x25b8, 4},   /* RTX A2000 Mobile */
    {0x25b9, 4},   /* RTX A1000 Laptop GPU */
    {0x25ba, 8},   /* RTX A2000 8GB Laptop GPU */
    {0x25bc, 6},   /* RTX A1000 6GB Laptop GPU */
    {0x25e0, 4},   /* RTX 3050 Ti Mobile */
    {0x25e2, 4},   /* RTX 3050 Mobile */
    {0x2684, 24},  /* RTX 4090 */
    {0x2685, 24},  /* RTX 4090 D */
    {0x26b1, 48},  /* L6000 / RTX 6000 Ada Generation */
    {0x26b2, 32},  /* RTX 5000 Ada */
    {0x26b3, 48},  /* RTX 5880 Ada */
    {0x26b5, 48},  /* L40 */
    {0x26b8, 24},  /* L40G */
    {0x26b9, 48},  /* L40S */
    {0x26ba, 48},  /* L20 */
    {0x2702, 16},  /* RTX 4080 SUPER */
    {0x2704, 16},  /* RTX 4080 */
    {0x2705, 16},  /* RTX 4070 Ti SUPER */
    {0x2717, 16},  /* RTX 4090 Laptop GPU */
    {0x2730, 16},  /* RTX 5000 Ada Generation Laptop GPU */
    {0x2757, 16},  /* RTX 4090 Laptop */
    {0x2770, 16},  /* RTX 5000 Ada Laptop */
    {0x2782, 12},  /* RTX 4070 Ti */
    {0x2783, 12},  /* RTX 4070 SUPER */
    {0x2786, 12},  /* RTX 4070 */
    {0x27a0, 12},  /* RTX 4080 Max-Q / Mobile */
    {0x27b0, 20},  /* RTX 4000 SFF Ada Generation */
    {0x27b1, 24},  /* RTX 4500 Ada */
    {0x27b2, 20},  /* RTX 4000 Ada */
    {0x27b6, 24},  /* L2 */
    {0x27b8, 24},  /* L4 */
    {0x27ba, 12},  /* RTX 4000 Ada Generation Laptop GPU */
    {0x27bb, 12},  /* RTX 3500 Ada Generation Laptop GPU */
    {0x27e0, 12},  /* RTX 4080 Max-Q / Mobile */
    {0x2803, 8},   /* RTX 4060 Ti */
    {0x2805, 16},  /* RTX 4060 Ti 16GB */
    {0x2820, 8},   /* RTX 4070 Max-Q / Mobile */
    {0x2838, 8},   /* RTX 3000 Ada Generation Laptop GPU */
    {0x2860, 8},   /* RTX 4070 Max-Q / Mobile */
    {0x2882, 8},   /* RTX 4060 */
    {0x28a0, 8},   /* RTX 4060 Max-Q / Mobile */
    {0x28a1, 6},   /* RTX 4050 Max-Q / Mobile */
    {0x28b0, 16},  /* RTX 2000 Ada */
    {0x28b8, 8},   /* RTX 2000 Ada Generation Laptop GPU */
    {0x28e0, 8},   /* RTX 4060 Max-Q / Mobile */
    {0x28e1, 6},   /* RTX 4050 Max-Q / Mobile */
    {0x2901, 180}, /* B200 */
    {0x2b85, 32},  /* RTX 5090 */
    {0x2b87, 32},  /* RTX 5090 D */
    {0x2bb1, 96},  /* RTX PRO 6000 Blackwell Workstation */
    {0x2bb4, 96},  /* RTX PRO 6000 Blackwell Max-Q */
    {0x2bb5, 96},  /* RTX PRO 6000 Blackwell Server */
    {0x2c02, 16},  /* RTX 5080 */
    {0x2c05, 16},  /* RTX 5070 Ti */
    {0x2c18, 24},  /* RTX 5090 Laptop */
    {0x2c19, 16},  /* RTX 5080 Laptop */
    {0x2c31, 32},  /* RTX PRO 4500 Blackwell */
    {0x2c34, 24},  /* RTX PRO 4000 Blackwell */
    {0x2c58, 24},  /* RTX 5090 Laptop */
    {0x2c59, 16},  /* RTX 5080 Laptop */
    {0x2d05, 8},   /* RTX 5060 */
    {0x2d18, 8},   /* RTX 5070 Laptop */
    {0x2d19, 8},   /* RTX 5060 Laptop */
    {0x2d58, 8},   /* RTX 5070 Laptop */
    {0x2d59, 8},   /* RTX 5060 Laptop */
    {0x2d83, 8},   /* RTX 5050 */
    {0x2f04, 12},  /* RTX 5070 */
    {0x2f18, 12},  /* RTX 5070 Ti Laptop */
    {0x2f58, 12},  /* RTX 5070 Ti Laptop */
};

static const struct gpu amd[] = {
    {0x66a3, 32},  /* Radeon Pro Vega II/Radeon Pro Vega II Duo */
    {0x66af, 16},  /* Radeon VII */
    {0x67c4, 8},   /* Radeon Pro WX 7100 */
    {0x67c7, 8},   /* Radeon Pro WX 5100 */
    {0x67e3, 4},   /* Radeon Pro WX 4100 */
    {0x6860, 16},  /* Instinct MI25/MI25x2/V340/V320 */
    {0x6861, 16},  /* Radeon PRO WX 9100 */
    {0x6862, 16},  /* Radeon PRO SSG */
    {0x6863, 16},  /* Radeon Vega Frontier Edition */
    {0x6864, 16},  /* Radeon Pro V340/Instinct MI25x2 */
    {0x6867, 8},   /* Radeon Pro Vega 56 */
    {0x6868, 8},   /* Radeon PRO WX 8100/8200 */
    {0x6869, 8},   /* Radeon Pro Vega 48 */
    {0x686b, 16},  /* Radeon Pro Vega 64X */
    {0x687f, 8},   /* Radeon RX Vega 56/64 */
    {0x7300, 4},   /* Radeon R9 FURY / NANO Series */
    {0x7310, 16},  /* Radeon Pro W5700X */
    {0x7312, 8},   /* Radeon Pro W5700 */
    {0x7319, 16},  /* Radeon Pro 5700 XT */
    {0x731b, 8},   /* Radeon Pro 5700 */
    {0x7341, 8},   /* Radeon Pro W5500 */
    {0x7362, 8},   /* Radeon Pro V520/V540 */
    {0x738c, 32},  /* Instinct MI100 */
    {0x738e, 32},  /* Instinct MI100 */
    {0x73a1, 32},  /* Radeon Pro V620 */
    {0x73a2, 32},  /* Radeon Pro W6900X */
    {0x73a3, 32},  /* Radeon PRO W6800 */
    {0x73a5, 16},  /* Radeon RX 6950 XT */
    {0x73ab, 32},  /* Radeon Pro W6800X/Radeon Pro W6800X Duo */
    {0x73af, 16},  /* Radeon RX 6900 XT */
    {0x73bf, 16},  /* Radeon RX 6800/6800 XT / 6900 XT */
    {0x73e1, 8},   /* Radeon PRO W6600M */
    {0x73e3, 8},   /* Radeon PRO W6600 */
    {0x73ef, 8},   /* Radeon RX 6650 XT / 6700S / 6800S */
    {0x73ff, 8},   /* Radeon RX 6600/6600 XT/6600M */
    {0x7408, 64},  /* Instinct MI250X */
    {0x740c, 64},  /* Instinct MI250X/MI250 */
    {0x740f, 64},  /* Instinct MI210 */
    {0x7421, 4},   /* Radeon PRO W6500M */
    {0x7422, 4},   /* Radeon PRO W6400 */
    {0x7423, 2},   /* Radeon PRO W6300/W6300M */
    {0x7424, 2},   /* Radeon RX 6300 */
    {0x7448, 48},  /* Radeon PRO W7900 */
    {0x744a, 48},  /* Radeon PRO W7900 Dual Slot */
    {0x745e, 32},  /* Radeon PRO W7800 */
    {0x7470, 16},  /* Radeon PRO W7700 */
    {0x7483, 8},   /* Radeon RX 7600M/7600M XT */
    {0x74a0, 128}, /* Instinct MI300A */
    {0x74a1, 192}, /* Instinct MI300X */
    {0x74a5, 256}, /* Instinct MI325X */
    {0x7551, 32},  /* Radeon AI PRO R9700 */
    {0x75a0, 288}, /* Instinct MI350X */
    {0x75a3, 288}, /* Instinct MI355X */
};

static const struct gpu intel[] = {
    {0x0bd5, 128}, /* Data Center GPU Max 1550 */
    {0x0bd6, 128}, /* Data Center GPU Max 1550 */
    {0x0bd9, 48},  /* Data Center GPU Max 1100 */
    {0x0bda, 48},  /* Data Center GPU Max 1100 */
    {0x0bdb, 48},  /* Data Center GPU Max 1100 */
    {0x4905, 4},   /* Iris Xe MAX Graphics */
    {0x4908, 4},   /* Iris Xe Graphics */
    {0x5690, 16},  /* Arc A770M */
    {0x5691, 12},  /* Arc A730M */
    {0x5692, 8},   /* Arc A550M */
    {0x5693, 4},   /* Arc A370M */
    {0x5694, 4},   /* Arc A350M */
    {0x56a1, 8},   /* Arc A750 */
    {0x56a2, 8},   /* Arc A580 */
    {0x56a5, 6},   /* Arc A380 */
    {0x56a6, 4},   /* Arc A310 */
    {0x56b0, 4},   /* Arc Pro A30M */
    {0x56b1, 6},   /* Arc Pro A40/A50 */
    {0x56b2, 8},   /* Arc Pro A60M */
    {0x56b3, 12},  /* Arc Pro A60 */
    {0x56c0, 16},  /* Data Center GPU Flex 170 */
    {0x56c1, 6},   /* Data Center GPU Flex 140 */
    {0xe20b, 12},  /* Arc B580 */
    {0xe20c, 10},  /* Arc B570 */
    {0xe211, 24},  /* Arc Pro B60 */
    {0xe212, 16},  /* Arc Pro B50 */
    {0xe223, 32},  /* Arc Pro B70 */
};

/* Ids that tell the size only together with the subsystem id (pci.ids). */
static const struct {
    uint16_t device, subsystem_vendor, subsystem_device, gib;
} nvidia_boards[] = {
    {0x1e30, 0x10de, 0x129e, 48}, /* Quadro RTX 8000 */
    {0x1e30, 0x10de, 0x12ba, 24}, /* Quadro RTX 6000 */
    {0x1e78, 0x10de, 0x13d8, 48}, /* Quadro RTX 8000 */
    {0x1e78, 0x10de, 0x13d9, 24}, /* Quadro RTX 6000 */
};

static uint64_t size_in(const struct gpu *gpu, size_t count, uint16_t device)
{
    for (size_t i = 0; i < count; i++)
        if (gpu[i].device == device)
            return (uint64_t)gpu[i].gib << 30;
    return 0;
}

uint64_t gpu_memory_by_id(uint16_t vendor, uint16_t device, uint16_t subsystem_vendor,
                          uint16_t subsystem_device)
{
    switch (vendor) {
    case 0x10de:
        for (size_t i = 0; i < RIG_ARRAY_LENGTH(nvidia_boards); i++)
            if (nvidia_boards[i].device == device &&
                nvidia_boards[i].subsystem_vendor == subsystem_vendor &&
                nvidia_boards[i].subsystem_device == subsystem_device)
                return (uint64_t)nvidia_boards[i].gib << 30;
        return size_in(nvidia, RIG_ARRAY_LENGTH(nvidia), device);
    case 0x1002:
        return size_in(amd, RIG_ARRAY_LENGTH(amd), device);
    case 0x8086:
        return size_in(intel, RIG_ARRAY_LENGTH(intel), device);
    default:
        return 0;
    }
}

/* Address bits of a page-table entry for memory outside the GPU. AMD: what Linux sets as DMA mask,
   44, and 48 from gfx 9.4.2 on (drivers/gpu/drm/amd/amdgpu/gmc_v9_0.c, gmc_v10_0.c, gmc_v11_0.c,
   gmc_v12_0.c). NVIDIA: 47 for Turing to Ada, 52 for Hopper and Blackwell (open-gpu-kernel-modules,
   kernel-open/nvidia-uvm). Intel: dma_mask_size of drivers/gpu/drm/xe/xe_pci.c. */
static const struct {
    uint16_t vendor, first, last;
    uint8_t bits;
} address_bits[] = {
    {0x1002, 0x15d8, 0x15d8, 44}, /* Picasso */
    {0x1002, 0x15dd, 0x15dd, 44}, /* Raven */
    {0x1002, 0x15e7, 0x15e7, 44}, /* Renoir and its kin */
    {0x1002, 0x1636, 0x1636, 44}, {0x1002, 0x1638, 0x1638, 44}, {0x1002, 0x164c, 0x164d, 44},
    {0x1002, 0x1681, 0x1681, 44}, {0x1002, 0x66a0, 0x66af, 44}, /* Vega 20 */
    {0x1002, 0x6860, 0x687f, 44},                               /* Vega 10 */
    {0x1002, 0x69a0, 0x69af, 44},                               /* Vega 12 */
    {0x1002, 0x7310, 0x7362, 44},                               /* Navi 10, 12, 14 */
    {0x1002, 0x7388, 0x7390, 44},                               /* MI100 */
    {0x1002, 0x73a0, 0x73ff, 44},                               /* Navi 21 to 23 */
    {0x1002, 0x7408, 0x7410, 48},                               /* MI200 */
    {0x1002, 0x7420, 0x743f, 44},                               /* Navi 24 */
    {0x1002, 0x7440, 0x749f, 44},                               /* Navi 31 to 33 */
    {0x1002, 0x74a0, 0x74bf, 48},                               /* MI300 */
    {0x1002, 0x7550, 0x7590, 44},                               /* Navi 44 and 48 */
    {0x1002, 0x75a0, 0x75bf, 48},                               /* MI350 */
    {0x10de, 0x1e00, 0x1fff, 47},                               /* Turing */
    {0x10de, 0x2080, 0x20ff, 47},                               /* Ampere: GA100 */
    {0x10de, 0x2180, 0x21ff, 47},                               /* Turing */
    {0x10de, 0x2200, 0x22ff, 47},                               /* Ampere: GA102 */
    {0x10de, 0x2300, 0x23ff, 52},                               /* Hopper */
    {0x10de, 0x2400, 0x25ff, 47},                               /* Ampere: GA103 to GA107 */
    {0x10de, 0x2600, 0x28ff, 47},                               /* Ada */
    {0x10de, 0x2900, 0x29ff, 52},                               /* Blackwell: GB10x */
    {0x10de, 0x2b00, 0x2dff, 52},                               /* Blackwell: GB202 to GB206 */
    {0x10de, 0x2f00, 0x2fff, 52},                               /* Blackwell: GB205 */
    {0x8086, 0x0bd0, 0x0bdb, 52},                               /* Ponte Vecchio */
    {0x8086, 0x5690, 0x5697, 46},                               /* DG2 */
    {0x8086, 0x56a0, 0x56c2, 46},                               /* DG2 */
    {0x8086, 0xe200, 0xe2ff, 46},                               /* Battlemage */
};

unsigned gpu_address_bits(uint16_t vendor, uint16_t device)
{
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(address_bits); i++)
        if (address_bits[i].vendor == vendor && device >= address_bits[i].first &&
            device <= address_bits[i].last)
            return address_bits[i].bits;
    return 0;
}

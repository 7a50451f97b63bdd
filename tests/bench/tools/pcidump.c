/* pcidump: writes a synthetic machine as lspci's hex dump, deterministic by seed.
 *
 *   pcidump N SEED [bytes]      bytes of configuration space: 256 (as -xxx) or 4096 (as -xxxx)
 *
 * Per domain: 8 root ports, under each a switch of 16 downstream ports with one endpoint each,
 * 272 functions a domain (two endpoints of three are GPUs of class 0302, the rest NICs of class
 * 0200), cut at N functions. Root ports and downstream ports carry ACS; the seed decides which
 * redirect. A 4096-byte dump of N functions is about N * 12.5 KiB.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long left;
static size_t space = 4096;
static uint64_t x;
static uint32_t serial;

static uint32_t rnd(void)
{
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (uint32_t)(x >> 16);
}

static void p16(uint8_t *c, int o, uint32_t v)
{
    c[o] = (uint8_t)v, c[o + 1] = (uint8_t)(v >> 8);
}
static void p32(uint8_t *c, int o, uint32_t v)
{
    p16(c, o, v), p16(c, o + 2, v >> 16);
}

/* type: PCIe port type; 4 root port, 5 upstream, 6 downstream, 0 endpoint */
static void function(int dom, int bus, int dev, int type, int gpu, int sec, int sub)
{
    if (left-- <= 0)
        return;
    uint8_t c[4096] = {0};
    int bridge = type != 0;
    p16(c, 0, bridge ? 0x1022 : gpu ? 0x1002 : 0x15b3);
    p16(c, 2, bridge ? 0x14ab : gpu ? 0x74a1 : 0x1021);
    p16(c, 4, 0x0406);
    p16(c, 6, 0x0010);
    c[8] = 1;
    p16(c, 10, bridge ? 0x0604 : gpu ? 0x0302 : 0x0200);
    c[14] = (uint8_t)bridge;
    c[0x34] = 0x40;
    serial++;
    if (bridge) {
        c[0x18] = (uint8_t)bus, c[0x19] = (uint8_t)sec, c[0x1a] = (uint8_t)sub;
        p16(c, 0x24, 0x0001), p16(c, 0x26, 0xfff1);
        p32(c, 0x28, 0x20), p32(c, 0x2c, 0x2f);
    } else {
        p32(c, 0x10, 0x0000000c), p32(c, 0x14, 0x2000 + serial * 0x40);
        p16(c, 0x2c, 0x1028), p16(c, 0x2e, 0x0b0b);
    }
    p16(c, 0x40, 0x0010);
    p16(c, 0x42, (uint32_t)(2 | type << 4));
    p32(c, 0x44, 0x8fe2);
    p16(c, 0x48, 0x2910);
    p32(c, 0x4c, 0x0043d105);
    p16(c, 0x52, 0x1105);
    if (space > 256) {
        p32(c, 0x100, 0x14820001); /* AER at 0x100, ACS at 0x148 */
        if (type == 4 || type == 6) {
            p32(c, 0x148, 0x0001000d);
            p16(c, 0x14c, 0x005f);
            p16(c, 0x14e, rnd() % 4 ? 0x0000 : 0x001d);
        } else {
            p32(c, 0x148, 0x00010018);
        }
    }
    printf("%04x:%02x:%02x.0 %s\n", (unsigned)dom, (unsigned)bus, (unsigned)dev,
           bridge ? "PCI bridge" : "Device");
    char line[64];
    static const char hex[] = "0123456789abcdef";
    for (size_t o = 0; o < space; o += 16) {
        int n = sprintf(line, o < 256 ? "%02zx:" : "%03zx:", o);
        for (size_t k = 0; k < 16; k++)
            line[n++] = ' ', line[n++] = hex[c[o + k] >> 4], line[n++] = hex[c[o + k] & 15];
        line[n++] = '\n';
        fwrite(line, 1, (size_t)n, stdout);
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    left = atol(argv[1]);
    x = strtoull(argv[2], 0, 0) * UINT64_C(0x9E3779B97F4A7C15) + 88172645463325252u;
    if (argc > 3)
        space = strtoul(argv[3], 0, 0) > 256 ? 4096 : 256;
    for (int dom = 0; left > 0; dom++)
        for (int rp = 0; rp < 8 && left > 0; rp++) {
            int b = 1 + rp * 18;
            function(dom, 0, 1 + rp, 4, 0, b, b + 17);
            function(dom, b, 0, 5, 0, b + 1, b + 17);
            for (int d = 0; d < 16; d++) {
                function(dom, b + 1, d, 6, 0, b + 2 + d, b + 2 + d);
                function(dom, b + 2 + d, 0, 0, rnd() % 3 != 0, 0, 0);
            }
        }
    return 0;
}

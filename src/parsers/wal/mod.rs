//! Write-ahead log of majors 10 to 19: pages, records, what records refer to, and the state machine that reads them.
//!
//! [`reader::WalReader`] turns bytes into [`record::Record`]s; everything else here reads one structure at a time.

pub mod block;
pub mod checkpoint;
pub mod end;
pub(crate) mod heap_redo;
pub mod heap_row;
pub mod lifecycle;
pub mod names;
pub mod page;
pub(crate) mod page_log;
pub mod payload;
pub mod reader;
pub mod record;
pub mod records;
pub mod scan;
pub mod timeline;
pub mod version;

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use super::version::Major;
    use crate::types::Lsn;

    pub(crate) struct Vector {
        pub name: &'static str,
        pub major: Major,
        pub lsn: Lsn,
        pub hex: &'static str,
        /// CRC-32C of the page that the record's image restores to.
        pub page_crc: Option<u32>,
    }

    /// Bytes from hexadecimal text.
    pub fn bytes_of(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    #[rustfmt::skip]
    pub(crate) const VECTORS: &[Vector] = &[
        Vector {
            name: "NEXTOID",
            major: Major::V18,
            lsn: Lsn(0x1006190),
            page_crc: None,
            hex: "1e000000010000004041000100000000300000006f643179ff0410470000",
        },
        Vector {
            name: "SWITCH",
            major: Major::V18,
            lsn: Lsn(0x5678B08),
            page_crc: None,
            hex: "1800000000000000108a67050000000040000000bcf4dcd9",
        },
        Vector {
            name: "FPW_CHANGE",
            major: Major::V15,
            lsn: Lsn(0x57D9188),
            page_crc: None,
            hex: "1b0000000000000070907d0500000000800000005da30a12ff0100",
        },
        Vector {
            name: "CHECKPOINT_REDO",
            major: Major::V18,
            lsn: Lsn(0x173DFD8),
            page_crc: None,
            hex: "1e000000e802000050df730100000000e0000000fad895f8ff0401000000",
        },
        Vector {
            name: "CHECKPOINT_ONLINE",
            major: Major::V18,
            lsn: Lsn(0x173E048),
            page_crc: None,
            hex: concat!(
                "72000000e8020000f8df73010000000010000000535e26daff58d8df730100000000010000000100000001000000",
                "01000000e902000000000000e04e00000100000000000000e802000001000000010000000100000000000000e29b",
                "006b000000000000000000000000e802000000000000",
            ),
        },
        Vector {
            name: "FPI with hole",
            major: Major::V18,
            lsn: Lsn(0x1016430),
            page_crc: Some(0x008C_0057),
            hex: concat!(
                "8900000001000000e043010100000000b0000000df8b3d1d0010000058004800037f06000001000000e517000000",
                "0000000000000000000000000000004800f01ff01f04200000000062310500040000000000000000000000000000",
                "00000000000000000000000000000000000000f0bf010000000000000000000000000000000000000008000000",
            ),
        },
        Vector {
            name: "FPI with hole, old flags",
            major: Major::V14,
            lsn: Lsn(0x10143E0),
            page_crc: Some(0x350A_4DBF),
            hex: concat!(
                "89000000010000009023010100000000b0000000ef67cb980010000058004800057f06000001000000e517000000",
                "0000000000000000000000000000004800f01ff01f04200000000062310500040000000000000000000000000000",
                "00000000000000000000000000000000000000f0bf000000000000000000000000000000000000000008000000",
            ),
        },
        Vector {
            name: "pglz",
            major: Major::V18,
            lsn: Lsn(0x3F28508),
            page_crc: Some(0x7851_C5C7),
            hex: concat!(
                "d2000000280300004084f20300000000a00000006a134c3b00110000a1000000067f060000050000001441000002",
                "0000000000000000b8f4740301010818000020002004c620010c01010303000118021cbf0808061f0c100e010f21",
                "0f0f010e010f422f6d0f012e010f83700f0170011f06f30f01f201ff01012f0cff0f01ff0f01ff0f01c942134f18",
                "ff0f01ffff0f01ff0f01ff0f01ff0f01ff0f01ff0f019887268f30ffff0f01ff0f01ff0f01ff0f01ff0f01ff0f01",
                "ff0f01ff0f01ff3f0f01ff0f01ff0f01ff0f01ff0f01ff0f018f",
            ),
        },
        Vector {
            name: "pglz, old flags",
            major: Major::V14,
            lsn: Lsn(0x3CF3900),
            page_crc: Some(0xE6D0_B1D8),
            hex: concat!(
                "d5000000140300003838cf0300000000a0000000f29253a800110000a4000000067f0600007f3500000f41000002",
                "0000000000000000a0a096030062650000180000203000200420011401010303fc00030107050f05180f10050e01",
                "0f210f6d0f010e010f422f0f012e010f83700f017001fb1f06f30f01f20101012f0cff0f01ff0f01ff0f01c9ff42",
                "134f18ff0f01ff0f01ff0f01ff0f01ff0f01ff0f01ffff0f019887268f30ff0f01ff0f01ff0f01ff0f01ff0f01ff",
                "ff0f01ff0f01ff0f01ff0f01ff0f01ff0f01ff0f01ff0f01ff010f018f",
            ),
        },
        Vector {
            name: "LZ4",
            major: Major::V15,
            lsn: Lsn(0x41286F0),
            page_crc: Some(0x8914_DB40),
            hex: concat!(
                "db0000000d0300001086120400000000a0000000d186831700110000aa0000000a7f060000050000000f41000002",
                "000000f00500000000c043f2036265000018000020002004201400000200610303000300000400000200000c0008",
                "02000c10000d02000f21000e0f02000d1f0142002e0f02002d1f0183006f0f02006f4f010101038a016e0f0200ff",
                "73100101001f031403f10f0200fffff8001204020200100328060f1803fffff80f0200ffffffffff000222080a02",
                "000030080102000f5c0efff40f0200ffffffffffffffffffffffffff6b500000000000",
            ),
        },
        Vector {
            name: "zstd",
            major: Major::V15,
            lsn: Lsn(0x437DDD8),
            page_crc: Some(0x4C76_D937),
            hex: concat!(
                "b40000000e030000e8dc370400000000a0000000196954800011000083000000127f060000050000000f41000002",
                "00000028b52ffd60001fcd0300740200000000d08712046265000018000020002004200003030003000001010103",
                "0103010301030301202010831a495ae86a850f02d0ac02aa010efe59b9dc4e808803fe50c03c8031f880e258b0c0",
                "aa2c20a21ad9bb7200d5fa4e2ca1257ea5c01fa6d32e810bd2193cc811de0c034112188205d82db3c704",
            ),
        },
    ];
}

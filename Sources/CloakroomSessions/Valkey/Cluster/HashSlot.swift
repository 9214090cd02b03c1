/// The hash slot of a key in a cluster: CRC16 (polynomial 0x1021, initial value 0, as XMODEM) of the part between the
/// first `{` and the next `}`, or of the whole key if that part is empty or missing, modulo 16,384.
enum HashSlot {
    static let count = 16_384

    static func slot(of key: String) -> Int {
        var bytes = Array(key.utf8)[...]
        if let open = bytes.firstIndex(of: UInt8(ascii: "{")) {
            let rest = bytes[(open + 1)...]
            if let close = rest.firstIndex(of: UInt8(ascii: "}")), close > rest.startIndex { bytes = rest[..<close] }
        }
        var crc: UInt16 = 0
        for byte in bytes {
            crc ^= UInt16(byte) << 8
            for _ in 0..<8 { crc = crc & 0x8000 == 0 ? crc << 1 : crc << 1 ^ 0x1021 }
        }
        return Int(crc) % count
    }
}

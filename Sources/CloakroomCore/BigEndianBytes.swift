extension UInt64 {
    /// The eight bytes in network order.
    package var bigEndianBytes: [UInt8] {
        withUnsafeBytes(of: bigEndian) { Array($0) }
    }
}

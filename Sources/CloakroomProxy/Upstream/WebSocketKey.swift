import FoundationEssentials

/// The `Sec-WebSocket-Key` of an upgrade, to which the response must correspond (RFC 6455 §4.1).
enum WebSocketKey {
    /// Encodes sixteen bytes in Base64.
    static func make(_ high: UInt64, _ low: UInt64) -> String {
        var bytes = Data()
        for word in [high, low] {
            withUnsafeBytes(of: word) { bytes.append(contentsOf: $0) }
        }
        return bytes.base64EncodedString()
    }
}

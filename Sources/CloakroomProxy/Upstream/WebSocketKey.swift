import FoundationEssentials

/// What an upgrade to a WebSocket carries so that the answer can be told from one that was made for somebody else
/// (RFC 6455 §4.1).
enum WebSocketKey {
    /// Sixteen bytes in Base64.
    static func make(_ high: UInt64, _ low: UInt64) -> String {
        var bytes = Data()
        for word in [high, low] {
            withUnsafeBytes(of: word) { bytes.append(contentsOf: $0) }
        }
        return bytes.base64EncodedString()
    }
}

import Crypto
import FoundationEssentials

/// Base 64 with the URL and filename safe alphabet and no padding (RFC 4648 §5, RFC 7515 §2).
enum Base64URL {
    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// `nil` if `text` contains a character outside the alphabet, including padding.
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        guard !text.contains(where: { "+/=".contains($0) }) else { return nil }
        let padding = String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        let padded = String(text).replacing("-", with: "+").replacing("_", with: "/") + padding
        return Data(base64Encoded: padded).map { [UInt8]($0) }
    }
}

/// A secret value that is not shown when it is printed, interpolated, dumped or reflected.
///
/// Failing tests print their operands and crash reporters use mirrors; both see only `<redacted>`.
public protocol Redacted: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Redacted {
    /// The type name and `<redacted>`.
    public var description: String { "\(Self.self)(<redacted>)" }

    /// The same as `description`.
    public var debugDescription: String { description }

    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The fingerprint of a secret, for constant-time comparison.
///
/// Digests are compared in constant time by swift-crypto; hashing first makes both sides equally long.
struct SecretFingerprint: Equatable, Sendable {
    private let digest: SHA256Digest

    init(of secret: some StringProtocol) {
        digest = SHA256.hash(data: Array(secret.utf8))
    }
}

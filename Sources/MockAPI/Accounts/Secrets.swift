import Crypto
import FoundationEssentials

/// Base 64 with the URL and filename safe alphabet and no padding (RFC 4648 §5, RFC 7515 §2).
enum Base64URL {
    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let padded = Data(bytes).base64EncodedString()
        var text = ""
        text.reserveCapacity(padded.utf8.count)
        for character in padded {
            switch character {
            case "+": text.append("-")
            case "/": text.append("_")
            case "=": break
            default: text.append(character)
            }
        }
        return text
    }

    /// `nil` if `text` contains a character outside the alphabet, including padding.
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var padded = ""
        padded.reserveCapacity(text.utf8.count + 3)
        for character in text {
            switch character {
            case "-": padded.append("+")
            case "_": padded.append("/")
            case "+", "/", "=": return nil
            default: padded.append(character)
            }
        }
        padded.append(String(repeating: "=", count: (4 - padded.utf8.count % 4) % 4))
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

import NIOSSL
import SwiftASN1
import X509

/// Information about a client's certificate that is passed to the upstream.
enum ClientCertificate {
    /// Maximum length of a subject. Longer subjects are omitted, because a truncated name may be the name of another
    /// client.
    static let subjectLimit = 1_024

    /// The subject in the notation of RFC 4514, most specific part first, such as `CN=jo,O=Example`, in printable
    /// ASCII: control characters and non-ASCII characters are escaped as `\` and two hexadecimal digits per octet of
    /// UTF-8 (§2.4), which makes it valid in a field value.
    /// - Parameter certificate: A certificate that was verified in the handshake.
    /// - Returns: `nil` if there is no subject, it is longer than ``subjectLimit``, or it cannot be parsed.
    static func subject(of certificate: NIOSSLCertificate) -> String? {
        guard let bytes = try? certificate.toDERBytes(), let parsed = try? Certificate(derEncoded: bytes) else {
            return nil
        }
        return text(parsed.subject)
    }

    /// Whether the certificate has expired.
    ///
    /// The handshake checks that, but a resumed session (RFC 8446 §2.2) carries the certificate without another check.
    /// - Parameter now: Seconds since 1970.
    static func isExpired(_ certificate: NIOSSLCertificate, at now: Int64) -> Bool {
        Int64(certificate.notValidAfter) < now
    }

    static func text(_ name: DistinguishedName) -> String? {
        let parts = name.reversed().map { part in part.map { rendered($0) }.joined(separator: "+") }
        var text: [UInt8] = []
        for byte in parts.joined(separator: ",").utf8 {
            if (0x20...0x7e).contains(byte) {
                text.append(byte)
            } else {
                text += [UInt8(ascii: "\\")] + hex(byte)
            }
        }
        return text.isEmpty || text.count > subjectLimit ? nil : String(decoding: text, as: UTF8.self)
    }

    private static func rendered(_ attribute: RelativeDistinguishedName.Attribute) -> String {
        if String(attribute.value) != nil { return attribute.description }
        // Values that are not text are written in their encoding (§2.4).
        var serializer = DER.Serializer()
        guard (try? serializer.serialize(ASN1Any(attribute.value))) != nil else { return "\(attribute.type)=#" }
        return "\(attribute.type)=#" + String(decoding: serializer.serializedBytes.flatMap(hex), as: UTF8.self)
    }

    private static func hex(_ byte: UInt8) -> [UInt8] {
        [byte >> 4, byte & 0xf].map { $0 < 10 ? UInt8(ascii: "0") + $0 : UInt8(ascii: "A") + $0 - 10 }
    }
}

import NIOSSL
import SwiftASN1
import X509

/// What is told about the certificate that a client has shown.
enum ClientCertificate {
    /// Longer subjects are not told at all: a part of a name may be somebody else's name.
    static let subjectLimit = 1_024

    /// The subject as RFC 4514 writes it, most specific part first, such as `CN=jo,O=Example`, in printable ASCII:
    /// control characters and what is beyond ASCII are escaped as `\` and two hexadecimal digits per octet of UTF-8
    /// (§2.4), so that it can stand in a field value.
    /// - Parameter certificate: One that was verified in the handshake.
    /// - Returns: `nil` if it has no subject, the subject is longer than ``subjectLimit``, or it cannot be read.
    static func subject(of certificate: NIOSSLCertificate) -> String? {
        guard let bytes = try? certificate.toDERBytes(), let parsed = try? Certificate(derEncoded: bytes) else {
            return nil
        }
        return text(parsed.subject)
    }

    /// Whether it was shown in time.
    ///
    /// The handshake checks that, but a session that is resumed (RFC 8446 §2.2) brings the certificate along without
    /// another check.
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
        // A value that is no text is given as its encoding (§2.4).
        var serializer = DER.Serializer()
        guard (try? serializer.serialize(ASN1Any(attribute.value))) != nil else { return "\(attribute.type)=#" }
        return "\(attribute.type)=#" + String(decoding: serializer.serializedBytes.flatMap(hex), as: UTF8.self)
    }

    private static func hex(_ byte: UInt8) -> [UInt8] {
        [byte >> 4, byte & 0xf].map { $0 < 10 ? UInt8(ascii: "0") + $0 : UInt8(ascii: "A") + $0 - 10 }
    }
}

import Foundation
import TestSupport

/// A key of the gateway for `private_key_jwt`.
enum ClientKey {
    /// Writes an ES256 key as `client.pem`, and its key set with the key id `k1` as `jwks.json`.
    static func write(to folder: TemporaryDirectory) async throws {
        let (key, point) = (folder.path(of: "client.pem"), folder.path(of: "client.der"))
        let openssl = try Executables.onPath("openssl", package: "openssl")
        for arguments in [
            ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key],
            ["pkey", "-in", key, "-pubout", "-outform", "DER", "-out", point],
        ] {
            let result = try await ChildProgram.run(openssl, arguments)
            guard result.ending.status == 0 else { throw Failure(description: result.errors) }
        }
        // The key information ends with both coordinates (RFC 5480 §2.2).
        let coordinates = try Data(contentsOf: URL(fileURLWithPath: point)).suffix(64)
        let (x, y) = (JWTText.encode(coordinates.prefix(32)), JWTText.encode(coordinates.suffix(32)))
        try folder.write(
            #"{"keys":[{"kty":"EC","crv":"P-256","kid":"k1","use":"sig","alg":"ES256","x":"\#(x)","y":"\#(y)"}]}"#,
            to: "jwks.json")
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }
}

/// The text of tokens, without verification.
enum JWTText {
    /// The payload without blanks; empty for any other text.
    static func payload(_ token: String) -> String {
        let parts = token.split(separator: ".")
        let text = parts.count > 1 ? String(parts[1]) : ""
        let standard = text.replacing("-", with: "+").replacing("_", with: "/")
        let padded = standard + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        return String(decoding: Data(base64Encoded: padded) ?? Data(), as: UTF8.self).replacing(" ", with: "")
    }

    /// Base64url without padding.
    static func encode(_ bytes: Data) -> String {
        bytes.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}

import Foundation

/// Certificates of the OpenSSL command line.
package enum SelfSignedCertificate {
    /// OpenSSL failed.
    package struct Failed: Error, CustomStringConvertible {
        package let description: String
    }

    /// Creates an RSA key and a certificate that is signed with it.
    /// - Parameter names: The alternative names in OpenSSL's notation.
    package static func makeRSA(name: String, names: String, certificateFile: String, keyFile: String) throws {
        let outcome = try ExternalProgram("openssl", package: "openssl").run(
            [
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=\(name)",
                "-addext", "subjectAltName=\(names)", "-keyout", keyFile, "-out", certificateFile,
            ], input: Data())
        guard outcome.status == 0 else { throw Failed(description: "openssl req: \(outcome.problems)") }
    }
}

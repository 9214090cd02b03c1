import ArgumentParser
import Foundation
import TestSupport
import Testing

@testable import cloakroom

@Suite("The file that init writes")
struct StarterFileTests {
    private let text = Data("listeners: []\n".utf8)

    /// `link` of a file system without hard links.
    private func noLinks(_ draft: String, _ path: String) -> Int32 {
        errno = EPERM
        return -1
    }

    @Test("Without hard links the file is written, readable by its owner only")
    func withoutLinks() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "cloakroom.yaml")
        try StarterFile.publish(directory.path(of: "draft"), text, as: path, makeLink: noLinks)
        expect(FileManager.default.contents(atPath: path), equals: text)
        try expect(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int, equals: 0o600)
    }

    @Test(
        "An existing file and a symbolic link are not replaced, with and without hard links", arguments: [true, false])
    func existing(hasLinks: Bool) throws {
        let directory = try TemporaryDirectory()
        try directory.write("draft", to: "draft")
        let draft = directory.path(of: "draft")
        try directory.write("mine", to: "cloakroom.yaml")
        let target = directory.path(of: "target")
        try FileManager.default.createSymbolicLink(atPath: directory.path(of: "link.yaml"), withDestinationPath: target)
        for name in ["cloakroom.yaml", "link.yaml"] {
            let path = directory.path(of: name)
            let error = #expect(throws: ValidationError.self) {
                if hasLinks {
                    try StarterFile.publish(draft, text, as: path)
                } else {
                    try StarterFile.publish(draft, text, as: path, makeLink: noLinks)
                }
            }
            expect(error?.message, equals: "\(path) exists (write --force to replace it, or another --output)")
        }
        expect(FileManager.default.contents(atPath: directory.path(of: "cloakroom.yaml")), equals: Data("mine".utf8))
        expect(!FileManager.default.fileExists(atPath: target))
    }

    @Test("A folder that does not exist is an error")
    func noFolder() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "missing/cloakroom.yaml")
        #expect(throws: ExitCode.self) {
            try StarterFile.publish(directory.path(of: "draft"), text, as: path, makeLink: noLinks)
        }
    }
}

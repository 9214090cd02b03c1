import Foundation
import Testing

/// The entry point of the test bundle. The one that SwiftPM would write searches the compiler's index for cases of XCTest, of which
/// there are none; without an index the tests are built with less work.
@main
struct TestBundle {
    static func main() async {
        // With a filter, `swift test` lists the cases of XCTest first.
        if CommandLine.arguments.contains("--dump-tests-json") {
            FileHandle.standardError.write(
                Data("run selected tests with: deploy/test.sh --filter NAME\n".utf8))
            exit(1)
        }
        await Testing.__swiftPMEntryPoint() as Never
    }
}

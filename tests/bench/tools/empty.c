/* empty: the least a process costs. */
int main(void)
{
    return 0;
}
